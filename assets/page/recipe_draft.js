// The draft: what stands in the recipe rail. Saved a moment after every change, to its session or,
// while there is none, to this browser; taken over from wherever else it was changed last.
import { get, part, put } from "./api.js";
import { defaultOf, facts, firstPresent, modelOf } from "./recipe_facts.js";
import { merged } from "./recipe_merge.js";
import { changed, store } from "./store.js";
import { toast } from "./toasts.js";

// No settings of the model: they stay when another is chosen.
export const WRITTEN = ["prompt", "negative_prompt", "image", "last_image", "references", "audio", "audio_2", "faces", "masks"];
const SAVE_MS = 500;
const AGAIN_MS = 2000;
const TYPING_MS = 1500;

// Only what differs from the model's defaults is in `recipe`; a number that cannot be read is there
// as it was typed. `seed` is the text of its field, `last` that of the seed drawn last; `files` has
// the names that pictures and voices came under, by path.
export const draft = { model: null, recipe: {}, seed: "", locked: false, last: "", copies: 1, files: {} };
const BLANK = structuredClone(draft);

let home; // the session that the draft belongs to; null: none yet; undefined: nothing was read
let place = { name: null }; // the same object for as long as the draft is not that of another session
let rev = 0; // how often the draft was saved when it was last read or written here
let base = BLANK; // the draft as it was then: what differs from it was changed here
let dirty = false;
let saving = null;
let reading = false;
let timer = 0;
let later = 0;
let typed = 0;
const others = {}; // settings that were left with a model, by model, while its session is open

export const snapshot = () => structuredClone(draft);
export const isReady = () => home !== undefined;
export const herePlace = () => place;
export const isPlace = (one) => one.name === place.name;
// Whether the draft is that of the session that is open.
export const isHome = () => home === store.name;
export const valueOf = (name) => draft.recipe[name] ?? defaultOf(name, modelOf(draft.model));

// ---------------------------------------------------------------- changing it

export function edit(patch) {
  Object.assign(draft, patch);
  dirty = true;
  typed = Date.now();
  keep();
  clearTimeout(timer);
  timer = setTimeout(save, SAVE_MS);
  changed();
}

// `null` goes back to the model's default.
export function setField(name, value) {
  const recipe = { ...draft.recipe, [name]: value };
  if (value === null || value === defaultOf(name, modelOf(draft.model))) delete recipe[name];
  edit({ recipe });
}

// What the person wrote stays; the settings become those of the new model, or what they were with it.
export function chooseModel(id) {
  others[draft.model] = draft.recipe;
  const keeps = ([name]) => name === "segments" || WRITTEN.includes(name);
  const settings = Object.entries(others[id] ?? {}).filter((one) => !keeps(one));
  const recipe = Object.fromEntries([...settings, ...Object.entries(draft.recipe).filter(keeps)]);
  // A prompt that another model came with says nothing to this one.
  const isOf = (model) => model?.samples.some((one) => one.prompt && one.prompt === recipe.prompt);
  if (facts.models.some(isOf) && !isOf(modelOf(id))) {
    recipe.prompt = others[id]?.prompt ?? (samplePrompt(modelOf(id)) || recipe.prompt);
  }
  edit({ model: id, recipe });
}

// Another recipe altogether; what stood there can be had back while its session is open.
export function replace(patch, words) {
  const before = snapshot();
  const of = place;
  edit(patch);
  const undo = () => {
    if (isPlace(of) && isHome()) edit(before);
    else toast(`Nothing was undone: that was in ${of.name ?? "a new session"}, which is not open now.`, { bad: true });
  };
  toast(words, { action: { name: "Undo", run: undo } });
}

// A recipe as the studio tells it, with the seeds of a take if they come along.
export function fromRecipe(recipe, seeds = null) {
  const { model, ...rest } = recipe;
  const known = modelOf(model);
  const own = Object.entries(rest).filter(
    ([name, value]) => value !== null && (!known || value !== defaultOf(name, known)),
  );
  const seed = seeds ? { seed: seedText(seeds), locked: true, last: seedText(seeds) } : {};
  return { model, recipe: Object.fromEntries(own), ...seed };
}

// One seed for all segments, or one for each.
export function seedText(seeds) {
  return new Set(seeds).size === 1 ? String(seeds[0]) : seeds.join(", ");
}

function tidy(given) {
  if (!given || typeof given.recipe !== "object" || !given.recipe) return null;
  const found = structuredClone(BLANK);
  for (const name of Object.keys(found)) if (typeof given[name] === typeof found[name]) found[name] = given[name];
  return { ...found, model: given.model ?? firstPresent()?.id };
}

const first = () => ({ ...structuredClone(BLANK), model: firstPresent()?.id ?? "starter", recipe: { prompt: samplePrompt(firstPresent()) } });
const samplePrompt = (model) => model?.samples.find((one) => one.prompt)?.prompt ?? "";

// ---------------------------------------------------------------- keeping it

// Beside the studio's copy, until that is known to be written: a closed tab or a studio that is
// away loses nothing.
const keyOf = (name) => (name === null ? "retake.draft" : `retake.draft.${name}`);

function keep() {
  try {
    localStorage.setItem(keyOf(home), JSON.stringify({ draft, rev, base }));
  } catch {
    // The browser keeps nothing: the studio still does.
  }
}

function kept(name) {
  try {
    const found = JSON.parse(localStorage.getItem(keyOf(name)));
    return found && { draft: tidy(found.draft), base: tidy(found.base) ?? BLANK };
  } catch {
    return null;
  }
}

export async function save() {
  clearTimeout(timer);
  await saving;
  if (!dirty || !isReady()) return;
  dirty = false;
  if (home === null) return;
  const name = home;
  saving = write(name).catch((error) => {
    dirty = home === name;
    if (error.status) toast(error.message, { bad: true });
    else timer = setTimeout(save, AGAIN_MS);
  });
  await saving;
  saving = null;
}

// What another tab saved since is taken over first, except where the same was changed here.
async function write(name) {
  const sent = snapshot();
  let told;
  try {
    told = await put("/api/session/draft", { session: name, draft: sent, base_rev: rev });
  } catch (error) {
    if (error.status !== 409 || home !== name) throw error;
    const theirs = tidy(error.told.draft);
    rev = error.told.draft_rev;
    if (theirs) {
      Object.assign(draft, merged(base, draft, theirs));
      base = theirs;
      keep();
      changed();
    }
    return write(name);
  }
  if (home !== name) return;
  rev = told.draft_rev;
  base = sent;
  if (dirty) keep();
  else localStorage.removeItem(keyOf(name));
}

addEventListener("pagehide", () => {
  if (!dirty || !home) return;
  fetch("/api/session/draft", {
    method: "PUT",
    keepalive: true,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ session: home, draft, base_rev: rev }),
  }).catch(() => {});
});

// Gives the draft to a session that was just made of it, which is opened next.
export async function carryTo(name) {
  reading = true;
  home = name;
  place.name = name;
  rev = 0;
  base = BLANK;
  dirty = true;
  await save();
  reading = false;
}

// The draft as it is becomes that of the next session.
export async function carryOn() {
  await save();
  home = null;
  place = { name: null };
  rev = 0;
  base = BLANK;
  keep();
}

// ---------------------------------------------------------------- taking it over

// Called whenever the page has learned something: reads the draft of a session that was opened,
// and one that was changed in another tab.
export async function follow() {
  if (reading) return;
  reading = true;
  try {
    if (store.name !== home) await arrive(store.name);
    else if (home !== null) await catchUp();
  } catch (error) {
    if (error.status) console.warn(error.message);
  } finally {
    reading = false;
  }
}

async function arrive(name) {
  if (name !== null && !store.session) return; // it is being read
  const told = store.session;
  if (isReady()) await save();
  const here = kept(name);
  let found = name === null ? (here?.draft ?? (isReady() ? snapshot() : first())) : tidy(told.draft);
  const theirs = name === null ? null : found;
  const unsaved = name !== null && here?.draft;
  if (unsaved) found = theirs ? merged(here.base, here.draft, theirs) : here.draft;
  if (!found && told?.baseline) {
    const take = await get(`/api/takes/${told.baseline}`);
    found = { ...structuredClone(BLANK), ...fromRecipe(take.recipe), last: seedText(take.seeds) };
  }
  if (store.name !== name) return;
  home = name;
  place = { name };
  for (const model of Object.keys(others)) delete others[model];
  rev = told?.draft_rev ?? 0;
  Object.assign(draft, found ?? (draft.model ? snapshot() : first()));
  base = theirs ?? (unsaved ? here.base : snapshot());
  dirty = Boolean(unsaved) && JSON.stringify(draft) !== JSON.stringify(theirs);
  if (dirty) timer = setTimeout(save, SAVE_MS);
  else if (unsaved) localStorage.removeItem(keyOf(name));
  changed();
}

async function catchUp() {
  const now = store.state?.session;
  if (!now || now.name !== home || now.draft_rev <= rev || dirty || saving) return;
  clearTimeout(later);
  if (Date.now() - typed < TYPING_MS) {
    later = setTimeout(follow, TYPING_MS);
    return;
  }
  const name = home;
  const told = await get(`/api/session?name=${part(name)}`);
  if (home !== name || dirty || saving) return;
  rev = told.draft_rev;
  const found = tidy(told.draft);
  if (!found) return;
  base = found;
  if (JSON.stringify(found) === JSON.stringify(draft)) return;
  Object.assign(draft, structuredClone(found));
  changed();
}

// The studio was started again, maybe with another library.
export function restarted() {
  rev = 0;
}

// Another tab wrote while there is no session.
addEventListener("storage", (event) => {
  if (home !== null || event.key !== keyOf(null) || !event.newValue) return;
  if (Date.now() - typed < TYPING_MS) return;
  const found = kept(null)?.draft;
  if (found) Object.assign(draft, found);
  changed();
});
