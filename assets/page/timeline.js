// The timeline: a tile a segment, to the scale of its length, and the bar below it that says what a
// retake from the chosen tile would do. A second row shows the take it is compared with, or the one
// that is being made.
import { post, put } from "./api.js";
import { commands, run } from "./commands.js";
import { arrange, button, h, setText } from "./dom.js";
import "./keys.js";
import { ActionBar } from "./timeline_bar.js";
import { Row } from "./timeline_row.js";
import {
  changed, divergence, jobHere, openSession, ready, refresh, set, show, store, subscribe, takeA, takeB,
} from "./store.js";
import { attempt, toast } from "./toasts.js";

export function mount(element) {
  const title = h("h2", { class: "panel-title" });
  const undo = button("Undo accept", { icon: "undo", class: "small quiet", onclick: () => commands.undo() });
  const extend = button("Add segments", {
    icon: "plus", class: "small", text: true, onclick: () => select(length()),
  });
  const rows = { a: new Row("a"), b: new Row("b") };
  const bar = new ActionBar();
  const empty = h("p", { class: "muted timeline-empty" }, "Segments appear here as they are made.");
  const strips = h("div", { class: "timeline-rows" });
  element.append(
    h(
      "div",
      { class: "panel timeline-panel" },
      h("div", { class: "timeline-head" }, title, undo, extend),
      strips,
      bar.element,
    ),
  );

  function draw() {
    const a = takeA();
    const job = jobHere();
    const b = takeB();
    // Without a take there is only what is being made.
    const first = a ? takeRow(a, job) : job ? jobRow(job) : null;
    const second = a && job ? jobRow(job, a) : a && b ? takeRow(b, null, a) : null;
    setText(title, titleOf(a, b, job));
    undo.hidden = !store.session?.can_undo;
    extend.hidden = !a || Boolean(b);
    rows.a.draw(first);
    rows.b.draw(second);
    arrange(strips, [first ? rows.a.element : empty, second ? rows.b.element : null]);
    bar.draw();
  }

  Object.assign(commands, { select, move, retake: () => bar.go(), acceptShown, undo: undoAccept, starShown, length });
  ready.then(() => subscribe(element, draw));
}

const length = () => takeA()?.segment_ids.length ?? 0;

// Chooses a tile of take A; its length means: what comes after the end.
function select(index, take = takeA()) {
  if (!take) return;
  const most = take.segment_ids.length;
  index = Math.max(0, Math.min(index, most));
  set({ selected: { take: take.id, index } });
  requestAnimationFrame(() => {
    const tile = document.querySelector(`#timeline [data-take="${take.id}"] [data-place="${index}"] .tile-face`);
    tile?.focus({ preventScroll: true });
    tile?.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

// One tile to the left or to the right of the chosen one.
function move(by) {
  if (!length()) return;
  const at = store.selected?.index;
  select(at === undefined ? (by > 0 ? 0 : length() - 1) : Math.min(at + by, length() - 1));
}

async function acceptShown(id = store.view.takes.at(-1)) {
  const take = store.session?.takes.find((one) => one.id === id);
  if (!take || take.baseline) return;
  // The page changes at once; the studio is told, and what it says afterwards counts.
  store.session.baseline = id;
  for (const one of store.session.takes) one.baseline = one.id === id;
  store.session.can_undo = true;
  show([id]);
  const { name } = store;
  const told = await attempt(() => post(`/api/takes/${id}/accept`));
  const undo = async () => {
    if (store.name !== name) await openSession(name);
    if (store.session?.baseline === id) await undoAccept();
    else toast("Another take was accepted since; undo that one first.");
  };
  if (told) toast("Accepted: it is the baseline now.", { action: { name: "Undo", run: undo } });
  await refresh();
}

async function undoAccept() {
  if (!store.session?.can_undo) return;
  const told = await attempt(() => post("/api/session/undo", { session: store.name }));
  await refresh();
  if (told?.baseline) show([told.baseline]);
}

async function starShown() {
  const take = store.view.takes.length > 1 ? store.session?.takes.find((t) => t.id === store.view.takes.at(-1)) : takeA();
  if (!take) return;
  take.stars = take.stars ? 0 : 5;
  changed();
  await attempt(() => put(`/api/takes/${take.id}/stars`, { stars: take.stars }));
  await refresh();
}

function titleOf(a, b, job) {
  if (!a) return job ? "Being made" : "Timeline";
  const name = a.baseline ? "Baseline" : "Take on the stage";
  if (job) return `${name}, and the take that is being made`;
  if (b) return `${name}, and the other take`;
  return a.baseline ? "Timeline" : "Timeline of the take on the stage";
}

// ---------------------------------------------------------------- what a row shows

// `job`: one that is made from this take; `other`: the take it is compared with.
function takeRow(take, job, other = null) {
  const from = store.selected?.take === take.id ? store.selected.index : null;
  const making = job?.parent === take.id ? job.keep : null;
  const shared = other ? divergence(take, other) : null;
  return {
    take: take.id,
    side: other ? "b" : "a",
    select: (index) => select(index, take),
    retake: (index) => (select(index, take), run("retake")),
    // The lock is the baseline's.
    locked: take.baseline ? (store.session?.locked ?? 0) : 0,
    lock: take.baseline ? lock : null,
    tiles: take.segment_ids.map((id, i) => ({
      key: id,
      index: i,
      frames: take.frames[i][1] - take.frames[i][0],
      fps: take.fps,
      seed: take.seeds[i],
      poster: id,
      selected: from === i,
      change: take.chapters.find((chapter) => chapter.first === i && i > 0)?.prompt ?? null,
      ...badgeOf(i, take, from, making, shared),
    })),
  };
}

function badgeOf(i, take, from, making, shared) {
  if (from !== null) return i < from ? { badge: "kept", kind: "kept" } : { badge: "will change", kind: "dim" };
  if (making !== null) return i < making ? { badge: "kept", kind: "kept" } : { badge: "will change", kind: "dim" };
  if (shared !== null) return i < shared ? { badge: "same", kind: "same" } : { badge: "new", kind: "new" };
  if (take.parent) return i < take.keep ? { badge: "kept", kind: "kept" } : { badge: "new", kind: "new" };
  return { badge: null, kind: "plain" };
}

function jobRow(job, beside = null) {
  const at = job.progress;
  const done = at.done ?? [];
  const running = job.state === "running";
  const frames = job.frames.map(([first, end]) => end - first);
  return {
    take: `job-${job.id}`,
    side: beside ? "b" : "a",
    tiles: job.seeds.map((seed, i) => {
      const kept = i < job.keep;
      const tile = { key: `${job.id}-${i}`, index: i, frames: frames[i] ?? 1, fps: job.fps, seed, poster: done[i] ?? null, selected: false };
      if (i < done.length) return { ...tile, badge: kept ? "kept" : "new", kind: kept ? "kept" : "new" };
      if (!running || i !== at.segment) return { ...tile, badge: "waits", kind: "dim" };
      const badge = at.step ? `rendering ${at.step}/${at.steps}` : (WORDS[at.stage] ?? "rendering");
      const part = at.steps ? at.step / at.steps : 0;
      const preview = at.preview_rev ? `/api/jobs/${job.id}/preview?rev=${at.preview_rev}` : null;
      return { ...tile, badge, kind: "rendering", part, preview: at.step ? preview : null };
    }),
  };
}

const WORDS = { load: "loading the model", encode: "encoding the prompt", join: "joining" };

async function lock(count) {
  store.session.locked = count;
  set({});
  await attempt(() => put("/api/session/lock", { session: store.name, count }));
  await refresh();
}
