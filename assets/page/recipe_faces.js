// The field that tells two voices apart by boxes around the faces: drawn on the picture, here or in a
// larger view, or written as numbers. Both say the same.
import { run } from "./commands.js";
import { h, setText } from "./dom.js";
import { isWithin, leastSide, read, rewritten, write } from "./recipe_boxes.js";
import { draft, setField, valueOf } from "./recipe_draft.js";
import { FacesView } from "./recipe_faces_view.js";
import { fieldOf, modelOf } from "./recipe_facts.js";
import { textField } from "./recipe_fields.js";
import { listOf, nameOf } from "./recipe_inputs.js";
import { changed, on, subscribe } from "./store.js";

const VOICES = ["audio", "audio_2"];
const UNIT = 16; // pixels of a video, for a model that does not say
const FORM = "x0,y0,x1,y1;x0,y0,x1,y1 in pixels of the picture";

export class FacesField {
  constructor(field) {
    this.name = field.name;
    this.held = null; // the boxes while one is pulled: the draft gets them at its end
    this.past = []; // what was drawn: {image, before, after}, the texts
    this.text = textField(field);
    this.element = this.text.element;
    this.view = new FacesView(this, () => run("openDrawer", this.drawer()));
    this.large = null;
    this.element.querySelector(".recipe-control").before(this.view.element);
    for (const kind of ["focus", "blur"]) this.text.control.addEventListener(kind, changed);
    on("back", () => this.views().forEach((view) => view.picture.again()));
  }

  views() {
    return [this.view, this.large].filter(Boolean);
  }

  // ---------------------------------------------------------------- the boxes

  boxes() {
    return this.held ?? read(this.written());
  }

  written() {
    return String(valueOf(this.name) ?? "");
  }

  hold(boxes) {
    this.held = boxes;
    this.show();
  }

  settle(boxes) {
    const before = this.written();
    const after = rewritten(before, boxes);
    this.held = null;
    if (after !== before) this.past.push({ image: draft.recipe.image, before, after });
    setField(this.name, after || null);
    this.show();
  }

  // Undoes what was drawn last. False if nothing was, or if something else came after it.
  putBack() {
    const last = this.past.pop();
    if (last?.image !== draft.recipe.image || last?.after !== this.written()) {
      this.past = [];
      return false;
    }
    setField(this.name, last.before || null);
    this.show();
    return true;
  }

  drop() {
    this.held = null;
    this.show();
  }

  // `view` has the focus, which goes on from there.
  remove(n, view) {
    this.settle(this.boxes().map((box, one) => (one === n ? null : box)));
    view.focusOn(n);
  }

  // Of the picture, if the rail has it.
  sizeOf(path) {
    const { picture } = this.view;
    return picture.path === path ? picture.size : null;
  }

  least(size) {
    const unit = modelOf(draft.model)?.multiple?.width ?? UNIT;
    return leastSide(size, [valueOf("width"), valueOf("height")], unit);
  }

  nameOf(n) {
    return fieldOf(VOICES[n]).label;
  }

  fileOf(n) {
    const path = draft.recipe[VOICES[n]];
    return path ? nameOf(path) : "";
  }

  // ---------------------------------------------------------------- what is seen

  draw(fault) {
    const path = this.refusal() ? null : draft.recipe.image;
    for (const view of this.views()) view.picture.check(path);
    if (this.held) return;
    const isDrawn = this.isHalfDrawn() && document.activeElement !== this.text.control;
    this.text.draw(isDrawn ? null : fault);
    // Beside masks nothing is to be written, but what is there can be taken away.
    const idle = this.isMasked() && !this.written() && document.activeElement !== this.text.control;
    this.text.control.parentElement.hidden = this.text.hintLine.hidden = idle;
    this.show();
  }

  // Between the first box and the second nothing is wrong yet.
  isHalfDrawn() {
    const { size } = this.view.picture;
    const boxes = this.boxes();
    const there = boxes.filter(Boolean);
    return size && there.length === 1 && isWithin(there[0], size) && this.written() === write(boxes);
  }

  show() {
    for (const view of this.views()) view.draw();
    const text = this.held ? rewritten(this.written(), this.held) : this.written();
    if (this.text.control.value !== text) this.text.control.value = text;
    const size = this.view.picture.told;
    setText(this.text.hintLine, size ? `${FORM}, which has ${size[0]} × ${size[1]}.` : `${FORM}.`);
  }

  isMasked() {
    return listOf("masks").length > 0;
  }

  // Why nothing can be drawn, or null.
  refusal() {
    if (this.isMasked()) return "The masks say who is where. Remove them to draw boxes instead.";
    if (!draft.recipe.audio_2) return "They tell two voices apart: give a second voice first.";
    return draft.recipe.image ? null : "Give a picture, to draw on it who is where.";
  }

  // Which box is still to come, where one is there.
  missing() {
    const n = this.boxes().indexOf(null);
    return `Now box ${n + 1}: drag over the face of the ${n ? "second" : "first"} voice, inside box ${2 - n} too.`;
  }

  drawer() {
    return { name: "faces", title: "Faces", build: (frame) => this.larger(frame) };
  }

  larger(frame) {
    this.large = new FacesView(this, null);
    const element = h("div", { class: "faces-sheet" }, this.large.element);
    subscribe(element, () => (this.refusal() ? frame.close() : this.large?.draw()));
    const closed = () => {
      this.large.picture.let();
      this.large = null;
    };
    return { element, focus: this.large.first(), closed };
  }
}
