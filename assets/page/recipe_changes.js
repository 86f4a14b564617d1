// What differs between the draft and the take whose segment is selected: a retake from there would
// be made with the draft, and the note says so.
import { get } from "./api.js";
import { arrange, button, h, setText } from "./dom.js";
import { wholeRecipe } from "./recipe_check.js";
import { draft, fromRecipe, isReady, replace } from "./recipe_draft.js";
import { facts, fieldOf } from "./recipe_facts.js";
import { changed, store, takeOf } from "./store.js";

// The same on both sides of a boundary between segments.
const CARRIED = ["model", "width", "height", "fps", "frames", "overlap", "image", "audio"];
const APART = ["segments"]; // how long the video is, is said elsewhere
const BRIEF = 24; // characters
const AGAIN_MS = 5000;

const takes = new Map(); // id -> the whole take, or null while it is read

function wholeTake(id) {
  if (takes.has(id)) return takes.get(id);
  takes.set(id, null);
  get(`/api/takes/${id}`).then(
    (take) => (takes.set(id, take), changed()),
    () => setTimeout(() => takes.delete(id), AGAIN_MS),
  );
  return null;
}

// {recipe, index} of the selected segment, or of the one that would come after the last; null if
// none is, or its take is being read.
function selectedRecipe() {
  const card = store.selected && takeOf(store.selected.take);
  const take = card && wholeTake(card.id);
  if (!take) return null;
  const index = Math.min(store.selected.index, card.segment_ids.length);
  const chapter = take.chapters.findLast((one) => one.first <= index);
  return { recipe: chapter?.recipe ?? take.recipe, index };
}

const plain = (value) => (typeof value === "string" ? value.trim() : (value ?? ""));

// The fields that a retake from the selected segment would change: {name: value of the draft}.
export function changes() {
  const at = isReady() && facts.fields.length ? selectedRecipe() : null;
  if (!at) return {};
  const mine = wholeRecipe();
  const names = Object.keys(at.recipe).filter((name) => !APART.includes(name) && name in mine);
  return Object.fromEntries(
    names.filter((name) => plain(mine[name]) !== plain(at.recipe[name])).map((name) => [name, mine[name]]),
  );
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
    const found = changes();
    const names = Object.keys(found);
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
