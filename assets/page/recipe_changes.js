// What differs between the draft and the take whose segment is selected: a retake from there would
// be made with the draft, and the note says so.
import { arrange, button, h, setText } from "./dom.js";
import { counts, wholeRecipe } from "./recipe_check.js";
import { draft, follow, fromRecipe, isHome, isReady, replace } from "./recipe_draft.js";
import { facts, fieldOf, modelOf, NOT_HERE } from "./recipe_facts.js";
import { store, takeOf } from "./store.js";
import { wholeTake, wholeTakeAgain } from "./whole.js";

// The same on both sides of a boundary between segments.
const CARRIED = ["model", "width", "height", "fps", "frames", "overlap", "image", "audio"];
const APART = ["segments"]; // how long the video is, is said elsewhere
const BRIEF = 24; // characters
const LOOK_MS = 50;
const MOST_LOOKS = 100;

// {recipe, index} of the selected segment, or of the one that would come after the last; null if
// none is, or its take is being read.
function selectedRecipe() {
  const card = store.selected && takeOf(store.selected.take);
  const take = card && wholeTake(card.id).take;
  if (!take) return null;
  const index = Math.min(store.selected.index, card.segment_ids.length);
  const chapter = take.chapters.findLast((one) => one.first <= index);
  return { recipe: chapter?.recipe ?? take.recipe, index };
}

// As one that can be compared: lists by what they hold, an empty one like nothing.
function plain(value) {
  if (typeof value === "string") return value.trim();
  if (typeof value === "object" && value !== null) return value.length === 0 ? "" : JSON.stringify(value);
  return value ?? "";
}

// {mine: the whole draft as a recipe, names: of its fields that a retake takes over, differ: those
// of them that the selected segment has otherwise}
function compared() {
  const at = isReady() && isHome() && facts.fields.length ? selectedRecipe() : null;
  if (!at) return { mine: {}, names: [], differ: [] };
  const mine = wholeRecipe();
  // A setting of a mode of FlowCache that the draft is not in makes no difference.
  const idle = (name) => fieldOf(name)?.modes && !counts(fieldOf(name));
  const names = Object.keys(at.recipe).filter((name) => !APART.includes(name) && name in mine && !idle(name));
  return { mine, names, differ: names.filter((name) => plain(mine[name]) !== plain(at.recipe[name])) };
}

const pick = (recipe, names) => Object.fromEntries(names.map((name) => [name, recipe[name]]));

// The fields to order a retake from the selected segment with: {name: value of the draft}. Those that
// differ; under another model all of them, else its defaults would stand in for the others; nothing
// under a model that is not here, where `changesReady` says so.
export function changes() {
  const { mine, names, differ } = compared();
  if (!differ.includes("model")) return pick(mine, differ);
  return modelOf(mine.model) ? pick(mine, names) : {};
}

// The names of the fields in which the draft and the selected segment differ.
export const changedFields = () => compared().differ;

// Comes back when `changes` is known for the selection; throws, in words, if it cannot be.
export async function changesReady() {
  for (let looks = 0; !(isReady() && isHome()); looks++) {
    if (looks === MOST_LOOKS) throw new Error("The recipe of this session could not be read. Try again.");
    await follow();
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
  const card = store.selected && takeOf(store.selected.take);
  if (!card) return;
  try {
    await wholeTakeAgain(card.id).done;
  } catch (error) {
    throw new Error(`The recipe of this take could not be read: ${error.message}`);
  }
  if (compared().differ.includes("model") && !modelOf(draft.model)) throw new Error(`${draft.model}: ${NOT_HERE}`);
}

const short = (name, value) => {
  const text = value === null || value === "" ? "none" : String(value).trim();
  return name === "image" || name === "audio" ? text.split(/[\\/]/).pop() : text;
};

// A field with both values, unless they are too long to be read at a glance.
function told(name, was, now) {
  const both = [short(name, was), short(name, now)];
  const label = h("b", {}, fieldOf(name).label);
  const brief = both.every((text) => text.length <= BRIEF);
  return h("li", {}, label, brief ? [" ", h("bdi", {}, both[0]), " → ", h("bdi", {}, both[1])] : null);
}

export class ChangesNote {
  constructor() {
    this.lead = h("p", { class: "recipe-note-lead" });
    this.list = h("ul", { class: "recipe-note-list" });
    this.stop = h("p", { class: "recipe-note-stop" });
    this.stuck = h("ul", { class: "recipe-note-list" });
    this.fix = h("p", {}, "Put it back, or begin at segment 1 or with a new take.");
    this.back = button("Put back", { class: "small", onclick: () => this.putBack() });
    this.top = h("div", { class: "recipe-note-top" });
    this.element = h("div", { class: "recipe-note", role: "status" });
    this.shown = "";
  }

  draw() {
    const at = selectedRecipe();
    const { mine, differ: names } = compared();
    const found = pick(mine, names);
    const key = JSON.stringify([at?.index, at?.recipe, found]);
    if (key === this.shown) return;
    this.shown = key;
    if (!names.length) return arrange(this.element, []);
    const stays = (name) => at.index > 0 && CARRIED.includes(name);
    const fill = (list, chosen) => list.replaceChildren(...chosen.map((name) => told(name, at.recipe[name], found[name])));
    const free = names.filter((name) => !stays(name));
    const stuck = names.filter(stays);
    setText(this.lead, `These come into effect from segment ${at.index + 1} on`);
    fill(this.list, free);
    setText(this.stop, `These cannot change from segment ${at.index + 1} on`);
    fill(this.stuck, stuck);
    arrange(this.top, [free.length ? this.lead : this.stop, this.back]);
    arrange(this.element, [
      this.top,
      ...(free.length ? [this.list] : []),
      ...(free.length && stuck.length ? [this.stop] : []),
      ...(stuck.length ? [this.stuck, this.fix] : []),
    ]);
  }

  putBack() {
    const at = selectedRecipe();
    if (!at) return;
    const { model, recipe } = fromRecipe(at.recipe);
    const segments = draft.recipe.segments;
    if (segments !== undefined) recipe.segments = segments;
    replace({ model, recipe }, `The recipe of segment ${at.index + 1} is back.`);
  }
}
