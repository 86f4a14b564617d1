// Picture and voice: dropped or chosen, shown, taken out again. The file goes to the studio at once;
// the draft holds where it lies there.
import { post } from "./api.js";
import { arrange, button, h, setText } from "./dom.js";
import { draft, edit, herePlace, isPlace, setField } from "./recipe_draft.js";
import { fieldOf, modelOf, reads } from "./recipe_facts.js";
import { toast } from "./toasts.js";

// Files of the library are named by their own folder and their name.
const urlOf = (path) => `/api/inputs/${path.split(/[\\/]/).slice(-2).map(encodeURIComponent).join("/")}`;
export const nameOf = (path) => draft.files[path] ?? path.split(/[\\/]/).pop();

// Gives a file to the draft, for the recipe field `name`: in place of the one that is there, or
// beside the others where the field takes several.
export async function setInput(name, file) {
  const field = fieldOf(name);
  const model = modelOf(draft.model);
  if (!reads(model, field)) {
    toast(`${model?.name ?? draft.model} takes no ${field.label.toLowerCase()}: choose another model first.`, { bad: true });
    return;
  }
  const place = herePlace();
  const form = new FormData();
  form.append("kind", name);
  form.append("file", file);
  const told = await post(`/api/inputs?kind=${name}`, form);
  if (!isPlace(place)) {
    toast(`${told.name} was not used: another session was opened before it was here.`, { bad: true });
    return;
  }
  edit({ files: { ...draft.files, [told.path]: told.name } });
  setField(name, field.kind === "file" ? told.path : [...listOf(name), field.kind === "loras" ? { file: told.path, strength: 1 } : told.path]);
}

export const listOf = (name) => draft.recipe[name] ?? [];
export const ACCEPTS = { image: "image/*", last_image: "image/*", references: "image/*", audio: "audio/*", audio_2: "audio/*", loras: ".safetensors" };
export const isSound = (name) => name.startsWith("audio");

// A picture or a voice of the library, to be seen or heard.
export function mediaOf(name, path) {
  if (isSound(name)) return h("audio", { src: urlOf(path), controls: true, preload: "metadata", class: "recipe-player" });
  return h("img", { src: urlOf(path), alt: `The picture ${nameOf(path)}`, class: "recipe-thumb" });
}

export class InputField {
  constructor(field) {
    this.field = field;
    this.name = field.name;
    const ids = { control: `recipe-${field.name}`, hint: `recipe-${field.name}-hint`, fault: `recipe-${field.name}-fault` };
    this.control = h("input", {
      type: "file", id: ids.control, class: "visually-hidden recipe-file", accept: ACCEPTS[field.name],
      "aria-describedby": `${ids.fault} ${ids.hint}`,
      onchange: () => (this.give(this.control.files[0]), (this.control.value = "")),
    });
    const words = `Drop a ${field.label.toLowerCase()} here, or choose one`;
    this.empty = h("span", { class: "recipe-drop-words" }, words);
    this.zone = h("label", { class: "recipe-drop", for: ids.control }, this.empty);
    this.name_ = h("bdi", { class: "recipe-file-name" });
    this.out = button(`Remove the ${field.label.toLowerCase()}`, { icon: "close", class: "small quiet", onclick: () => this.remove() });
    this.filled = h("div", { class: "recipe-filled" });
    this.fault = h("div", { class: "recipe-fault", id: ids.fault });
    this.box = h("div", { class: "recipe-drop-box" });
    this.element = h(
      "div",
      {
        class: "field recipe-field", "data-field": field.name,
        ondragover: (event) => this.over(event), ondragleave: () => this.zone.classList.remove("over"),
        ondrop: (event) => this.drop(event),
      },
      h("span", { class: "label" }, field.label),
      this.control,
      this.box,
      this.fault,
      h("div", { class: "hint", id: ids.hint }, field.hint),
    );
    this.control.setAttribute("aria-label", field.label);
    this.shown = undefined;
    this.refused = null;
  }

  over(event) {
    if (![...event.dataTransfer.items].some((item) => item.kind === "file")) return;
    event.preventDefault();
    event.stopPropagation();
    this.zone.classList.add("over");
  }

  drop(event) {
    this.zone.classList.remove("over");
    const file = event.dataTransfer.files[0];
    if (!file) return;
    event.preventDefault();
    event.stopPropagation();
    this.give(file);
  }

  async give(file) {
    if (!file) return;
    this.refused = null;
    setText(this.empty, `Reading ${file.name}…`);
    try {
      await setInput(this.name, file);
    } catch (error) {
      this.refused = error.fix ?? error.message;
      this.draw(null);
    } finally {
      setText(this.empty, `Drop a ${this.field.label.toLowerCase()} here, or choose one`);
    }
  }

  remove() {
    this.refused = null;
    setField(this.name, null);
    this.control.focus();
  }

  draw(fault) {
    const path = draft.recipe[this.name] ?? null;
    if (path !== this.shown) {
      this.shown = path;
      this.refused = null;
      if (path) {
        setText(this.name_, nameOf(path));
        this.filled.replaceChildren(mediaOf(this.name, path), this.name_, this.out);
      }
    }
    arrange(this.box, path ? [this.filled, this.zone] : [this.zone]);
    this.zone.classList.toggle("again", Boolean(path));
    if (path && !this.empty.textContent.startsWith("Reading")) setText(this.empty, "Another one");
    const words = this.refused ?? fault;
    setText(this.fault, words ?? "");
    if (words) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
  }
}
