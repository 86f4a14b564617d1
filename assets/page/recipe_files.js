// Fields that take several files: further pictures, and LoRAs, each with how much of it is added.
import { arrange, button, h, setText } from "./dom.js";
import { parsed } from "./recipe_check.js";
import { setField } from "./recipe_draft.js";
import { ACCEPTS, listOf, mediaOf, nameOf, setInput } from "./recipe_inputs.js";

const STRENGTH = { kind: "number" };

export class FilesField {
  constructor(field) {
    this.field = field;
    this.name = field.name;
    this.isLora = field.kind === "loras";
    const ids = { control: `recipe-${field.name}`, hint: `recipe-${field.name}-hint`, fault: `recipe-${field.name}-fault` };
    this.control = h("input", {
      type: "file", id: ids.control, class: "visually-hidden recipe-file", accept: ACCEPTS[field.name], multiple: true,
      "aria-label": field.label, "aria-describedby": `${ids.fault} ${ids.hint}`,
      onchange: () => this.give([...this.control.files]).then(() => (this.control.value = "")),
    });
    this.words = h("span", { class: "recipe-drop-words" });
    this.zone = h("label", { class: "recipe-drop", for: ids.control }, this.words);
    this.list = h("ul", { class: "recipe-files", "aria-label": field.label });
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
    this.reading = null;
    this.refused = null;
    this.shown = null;
  }

  over(event) {
    if (![...event.dataTransfer.items].some((item) => item.kind === "file")) return;
    event.preventDefault();
    event.stopPropagation();
    this.zone.classList.add("over");
  }

  drop(event) {
    this.zone.classList.remove("over");
    const files = [...event.dataTransfer.files];
    if (!files.length) return;
    event.preventDefault();
    event.stopPropagation();
    this.give(files);
  }

  // One after the other, in the order in which they were chosen.
  async give(files) {
    this.refused = null;
    try {
      for (const file of files) {
        this.reading = file.name;
        this.draw(null);
        await setInput(this.name, file);
      }
    } catch (error) {
      this.refused = error.fix ?? error.message;
    } finally {
      this.reading = null;
      this.draw(null);
    }
  }

  put(list) {
    this.refused = null;
    setField(this.name, list.length ? list : null);
  }

  remove(i) {
    this.put(listOf(this.name).filter((_, at) => at !== i));
    this.control.focus();
  }

  row(one, i) {
    const path = this.isLora ? one.file : one;
    const name = nameOf(path);
    const out = button(`Remove ${name}`, { icon: "close", class: "small quiet", onclick: () => this.remove(i) });
    const words = h("bdi", { class: "recipe-file-name" }, name);
    if (!this.isLora) return h("li", { class: "recipe-filled" }, mediaOf(this.name, path), words, out);
    const strength = h("input", {
      type: "text", inputmode: "decimal", class: "number recipe-strength", autocomplete: "off", "aria-label": `Strength of ${name}`,
      value: String(one.strength),
      onchange: () => {
        const value = parsed(strength.value, STRENGTH) ?? 1;
        this.put(listOf(this.name).map((other, at) => (at === i ? { ...other, strength: value } : other)));
      },
    });
    return h("li", { class: "recipe-filled" }, words, h("span", { class: "muted" }, "×"), strength, out);
  }

  draw(fault) {
    const list = listOf(this.name);
    const now = JSON.stringify(list);
    if (now !== this.shown) {
      this.shown = now;
      this.list.replaceChildren(...list.map((one, i) => this.row(one, i)));
    }
    arrange(this.box, list.length ? [this.list, this.zone] : [this.zone]);
    this.zone.classList.toggle("again", list.length > 0);
    const what = this.isLora ? "LoRA files (.safetensors)" : "pictures";
    setText(this.words, this.reading ? `Reading ${this.reading}…` : list.length ? "More" : `Drop ${what} here, or choose some`);
    const words = this.refused ?? fault;
    setText(this.fault, words ?? "");
    if (words) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
  }
}
