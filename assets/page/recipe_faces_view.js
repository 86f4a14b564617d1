// The picture to draw faces on, with which box belongs to which voice and what can be done next.
import { arrange, button, h, setText } from "./dom.js";
import { half } from "./recipe_boxes.js";
import { draft } from "./recipe_draft.js";
import { FacesPicture } from "./recipe_faces_picture.js";
import { store } from "./store.js";

const UNSEEN = "It cannot be drawn on, since this browser does not show it as the studio reads it.";
const LOST = "It could not be read.";
const MISSED = `${LOST} It is tried again when the studio answers.`;
const TAP = "Tap the picture to draw on it.";
const NONE = "Drag over the face of each voice.";
const HALVES = "Without boxes the left half has the first voice, the right half the second.";
const BOTH = "Drag a box to move it, a corner to resize it.";
const BY_KEY = "Arrow keys do so too, with Shift to resize; Delete removes it.";
const KEYS = "Arrow keys move it, with Shift they resize it, Delete removes it.";

export class FacesView {
  // `larger` opens the larger view; null in that one.
  constructor(faces, larger) {
    this.faces = faces;
    this.larger = larger;
    const keys = h("span", { class: "visually-hidden", id: `faces-keys-${larger ? "rail" : "large"}` }, KEYS);
    this.picture = new FacesPicture(faces, { keys: keys.id, remove: (n) => faces.remove(n, this), larger });
    this.rows = [0, 1].map((n) => new VoiceRow(faces, n, this));
    this.who = h("ul", { class: "faces-who", "aria-label": "Who is where" }, ...this.rows.map((row) => row.element));
    this.guide = h("p", { class: "faces-guide", role: "status" });
    this.told = h("span", { class: "visually-hidden", role: "status" });
    this.swap = button("Swap 1 and 2", { class: "small", onclick: () => faces.settle(faces.boxes().reverse()) });
    this.more = larger && button("Larger view", { class: "small", onclick: larger });
    this.tools = h("div", { class: "faces-tools" });
    this.element = h("div", { class: "faces-view", onkeydown: (event) => this.key(event) }, this.picture.element, this.guide, this.who, this.tools, keys, this.told);
  }

  draw() {
    const { faces, picture } = this;
    const refusal = faces.refusal();
    picture.see(refusal ? null : draft.recipe.image);
    picture.draw();
    const there = picture.size !== null;
    const boxes = faces.boxes();
    setText(this.guide, refusal ?? (there ? this.next(boxes) : picture.unseen ? this.unseen() : ""));
    this.who.hidden = !there;
    for (const row of this.rows) row.draw(boxes);
    arrange(this.tools, there ? [this.more, boxes.every(Boolean) ? this.swap : null] : []);
    // Of a box that keys move, where it is.
    const moved = picture.boxes.find((box) => box === document.activeElement);
    if (!faces.held) setText(this.told, moved?.getAttribute("aria-label") ?? "");
  }

  unseen() {
    const { told } = this.picture;
    if (store.away) return MISSED;
    return told ? `${UNSEEN} Write the boxes as numbers, in pixels of ${told.join(" × ")}.` : LOST;
  }

  // Below the picture: a line more or less above it would move it away from the pointer.
  next(boxes) {
    const fine = matchMedia("(pointer: fine)").matches;
    const drawn = boxes.filter(Boolean).length;
    if (this.larger && !fine) return drawn ? TAP : `${TAP} ${HALVES}`;
    if (!drawn) return `${NONE} ${HALVES}`;
    if (drawn === 1) return this.faces.missing();
    return fine ? `${BOTH} ${BY_KEY}` : BOTH;
  }

  add(n) {
    this.faces.settle(this.faces.boxes().map((box, one) => (one === n ? half(n, this.picture.size) : box)));
    this.focusOn(n);
  }

  focusOn(n) {
    const box = this.picture.boxes[n];
    (box.hidden ? this.rows[n].more : box).focus();
  }

  // Undoes what was drawn last. On a box that is never meant for a take.
  key(event) {
    if (!(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey || event.key.toLowerCase() !== "z") return;
    const { target } = event;
    const n = [0, 1].find((one) => this.picture.boxes[one] === target || this.rows[one].element.contains(target));
    const isDone = !this.picture.pull && this.faces.putBack();
    if (!isDone && !this.picture.element.contains(target)) return;
    event.preventDefault();
    event.stopPropagation();
    if (isDone && n !== undefined) this.focusOn(n);
    else if (!target.isConnected) this.first().focus();
  }

  // Where one begins.
  first() {
    return this.picture.boxes.find((box) => !box.hidden) ?? this.rows[0].more;
  }
}

// A voice, and the box that it belongs to.
class VoiceRow {
  constructor(faces, n, view) {
    this.faces = faces;
    this.n = n;
    this.name = h("b", {});
    this.file = h("bdi", { class: "faces-file" });
    this.more = button("Add", { class: "small", "aria-label": `Add box ${n + 1}`, onclick: () => view.add(n) });
    this.less = button(`Remove box ${n + 1}`, { icon: "close", class: "small quiet", onclick: () => faces.remove(n, view) });
    const number = h("span", { class: `faces-number is-${n + 1}` }, String(n + 1));
    this.element = h("li", {}, number, h("span", { class: "faces-voice" }, this.name, this.file), this.more, this.less);
  }

  draw(boxes) {
    setText(this.name, this.faces.nameOf(this.n));
    setText(this.file, this.faces.fileOf(this.n));
    this.more.hidden = Boolean(boxes[this.n]);
    this.less.hidden = !boxes[this.n];
  }
}
