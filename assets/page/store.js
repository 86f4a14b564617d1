// What the page knows. One object, filled by polling the studio; regions subscribe and draw.
//
// The studio holds everything that must survive: takes, jobs, the draft, the lock. Only what one tab
// looks at lives here: the session that is open, the selection, and the takes on the stage.
import { Away, get, part } from "./api.js";

const BUSY_MS = 300;
const IDLE_MS = 900;
const HIDDEN_MS = 2500;

export const store = {
  state: null, // of GET /api/state
  session: null, // of GET /api/session; null while there is none
  name: null, // of the open session
  away: false, // the studio does not answer
  selected: null, // {take, index}: the tile that is chosen; index counts from 0
  view: { takes: [] }, // ids on the stage: one, A and B, or up to four
  batches: [], // orders of several takes that are looked at together: {jobs, takes}
};

const watchers = new Set();
const listeners = {};
let drawing = false;
let timer = 0;
let seen = "";
let polling = null;
let reading = null;
let readings = 0;

// `draw` is called after every change, at most once a frame, until `element` is gone.
export function subscribe(element, draw) {
  const watcher = { element, draw };
  watchers.add(watcher);
  draw();
  return () => watchers.delete(watcher);
}

export function set(patch) {
  Object.assign(store, patch);
  changed();
}

export function changed() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    for (const watcher of watchers) {
      if (!watcher.element.isConnected) watchers.delete(watcher);
      else attemptDraw(watcher);
    }
  });
}

// A region that cannot draw leaves the others alone.
function attemptDraw(watcher) {
  try {
    watcher.draw();
  } catch (error) {
    console.error(error);
  }
}

// Jobs that were ordered together: their takes come to the stage when the last has ended.
export function together(jobs) {
  store.batches.push({ jobs, takes: [] });
}

// Events: "ended" (job), "session" (the open session was read anew), "back" (the studio restarted).
export function on(name, listener) {
  (listeners[name] ??= []).push(listener);
}

// A listener that fails leaves the others alone.
function emit(name, value) {
  for (const listener of listeners[name] ?? []) {
    try {
      listener(value);
    } catch (error) {
      console.error(error);
    }
  }
}

// ---------------------------------------------------------------- the open session

const keyOf = (name) => `retake.view.${name}`;

export async function openSession(name, view = null) {
  store.name = name;
  sessionStorage.setItem("retake.session", name ?? "");
  store.session = null;
  store.selected = null;
  store.view = view ?? JSON.parse(sessionStorage.getItem(keyOf(name)) ?? '{"takes": []}');
  seen = "";
  if (name) await readSession();
  changed();
  await poll();
}

export function readSession() {
  reading = read();
  return reading;
}

async function read() {
  const name = store.name;
  const turn = (readings += 1);
  const told = await get(`/api/session?name=${part(name)}`);
  if (store.name !== name) return;
  // An answer that was overtaken by a later question is out of date: that one's counts.
  if (turn !== readings) return void (await reading);
  store.session = told;
  const known = new Set(told.takes.map((take) => take.id));
  const takes = store.view.takes.filter((id) => known.has(id));
  if (!takes.length && told.baseline) takes.push(told.baseline);
  store.view = { ...store.view, takes };
  emit("session", told);
  changed();
}

// Reads the session again; if that fails, the next poll does. For after something was changed.
export const refresh = () =>
  readSession().catch(() => {
    if (store.session) store.session.takes_rev = null;
  });

// Puts takes on the stage; `at` is the segment (from 0) where it opens.
export function show(takes, at = null) {
  store.view = { takes, at, opened: Date.now() };
  store.selected = null;
  if (store.name) sessionStorage.setItem(keyOf(store.name), JSON.stringify({ takes }));
  changed();
}

// ---------------------------------------------------------------- polling

export async function poll() {
  clearTimeout(timer);
  // Polls do not overtake each other: the last one asks for what the last order changed.
  // One that fails is told of, and the next one asks again.
  polling = (polling ?? Promise.resolve()).then(look).catch(console.error);
  await polling;
  const busy = store.state?.jobs.length > 0;
  clearTimeout(timer);
  timer = setTimeout(poll, document.hidden ? HIDDEN_MS : busy ? BUSY_MS : IDLE_MS);
}

async function look() {
  let told;
  try {
    told = await get(`/api/state?session=${part(store.name ?? "")}&seen=${seen}`);
    // Some other program answers at this port.
    if (told && !told.server) throw new Away("GET");
  } catch (error) {
    if (!(error instanceof Away)) console.warn(error.message);
    if (!store.away) set({ away: true });
    return;
  }
  if (store.away) set({ away: false });
  if (!told) {
    if (isBehind(store.state)) await refresh();
    return;
  }
  const before = store.state;
  seen = told.rev;
  store.state = told;
  if (before && before.server.boot !== told.server.boot) emit("back");
  if (isBehind(told)) await refresh();
  if (before) tellEnded(before, told);
  changed();
}

// Whether the session that is open here is not as the studio has it.
const isBehind = (state) =>
  Boolean(store.name && state?.session && state.session.takes_rev !== store.session?.takes_rev);

function tellEnded(before, now) {
  const known = new Set(before.ended.map((job) => job.id));
  for (const job of [...now.ended].reverse()) if (!known.has(job.id)) emit("ended", job);
}

// ---------------------------------------------------------------- what can be read off

export const takes = () => store.session?.takes ?? [];
export const takeOf = (id) => takes().find((take) => take.id === id) ?? null;
export const baseline = () => takeOf(store.session?.baseline);
export const takeA = () => takeOf(store.view.takes[0]) ?? baseline();
export const takeB = () => (store.view.takes.length === 2 ? takeOf(store.view.takes[1]) : null);

// The first segment, from 0, in which two takes differ; the length of the shorter if none does.
export function divergence(a, b) {
  const n = Math.min(a.segment_ids.length, b.segment_ids.length);
  for (let i = 0; i < n; i++) if (a.segment_ids[i] !== b.segment_ids[i]) return i;
  return n;
}

// The job of the open session that runs or comes next.
export const jobHere = () => store.state?.jobs.find((job) => job.session === store.name) ?? null;

// What a retake would start from: the selected tile, or nothing.
export function target() {
  const take = store.selected && takeOf(store.selected.take);
  if (!take || store.selected.index >= take.segment_ids.length) return null;
  return { take, index: store.selected.index };
}

// ---------------------------------------------------------------- start

export async function start() {
  await poll();
  const kept = sessionStorage.getItem("retake.session");
  const names = store.state?.sessions ?? [];
  const name = (await isThere(kept, names)) ? kept : kept === "" ? null : (names[0] ?? null);
  await openSession(name).catch((error) => console.warn(error.message));
}

// Whether the session that this tab had open is one of this library.
async function isThere(name, names) {
  if (!name || names.includes(name)) return Boolean(name);
  const told = await get(`/api/session?name=${part(name)}`).catch(() => null);
  return Boolean(told && (told.takes.length || told.draft));
}

document.addEventListener("visibilitychange", () => !document.hidden && poll());

export const ready = start();
