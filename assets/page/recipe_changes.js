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
const SHOWN = 40;

const takes = new Map(); // id -> the whole take, or null while it is read

function wholeTake(id) {
  if (takes.has(id)) return takes.get(id);
  takes.set(id, null);
  get(`/api/takes/${id}`).then(
    (take) => (takes.set(id, take), changed()),
    () => takes.delete(id),
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

function told(name, value) {
  const text = value === null || value === "" ? "none" : String(value).trim();
  const short = name === "image" || name === "audio" ? text.split("/").pop() : text;
  const letters = [...short.slice(0, 2 * SHOWN)];
  return letters.length > SHOWN ? `${letters.slice(0, SHOWN).join("")}…` : short;
}

export class ChangesNote {
  constructor() {
    this.lead = h("p", { class: "recipe-note-lead" });
    this.list = h("ul", { class: "recipe-note-list" });
    this.fix = h("p", { class: "recipe-note-fix" });
    this.back = button("Put back", { class: "small", onclick: () => this.putBack() });
    this.element = h("div", { class: "recipe-note", role: "status" });
    this.shown = "";
  }

  draw() {
    const at = selectedRecipe();
    const found = changes();
    const names = Object.keys(found);
    const key = JSON.stringify([at?.index, found]);
    if (key === this.shown) return;
    this.shown = key;
    if (!names.length) return arrange(this.element, []);
    const number = at.index + 1;
    const stuck = at.index > 0 ? names.filter((name) => CARRIED.includes(name)) : [];
    setText(
      this.lead,
      names.length === stuck.length
        ? `These cannot change from segment ${number} on`
        : `These come into effect from segment ${number} on`,
    );
    this.list.replaceChildren(...names.map((name) => this.item(name, at.recipe[name], found[name], stuck)));
    const labels = stuck.map((name) => fieldOf(name).label).join(", ");
    const fix = `${labels}: the same in the whole video. Put back, or start from segment 1 or with a new take.`;
    setText(this.fix, stuck.length ? fix : "");
    arrange(this.element, [this.lead, this.list, stuck.length ? this.fix : null, this.back]);
  }

  item(name, was, now, stuck) {
    const mark = stuck.includes(name) ? h("span", { class: "recipe-note-stuck" }, "cannot change here") : null;
    return h(
      "li",
      {},
      h("b", {}, fieldOf(name).label),
      mark,
      h("span", { class: "recipe-note-values" }, h("bdi", {}, told(name, was)), " → ", h("bdi", {}, told(name, now))),
    );
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
