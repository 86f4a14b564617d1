// What every field for files shares: a place to drop them or choose them, what they came to, and what
// is wrong with them.
import { arrange, h, setText } from "./dom.js";
import { acceptsOf, setInput } from "./recipe_inputs.js";

export class DropField {
  // `several` files may be given at once. A subclass says what is there (`there()`, elements to show
  // above the zone) and what the zone asks for (`asks()`).
  constructor(field, several = false) {
    this.field = field;
    this.name = field.name;
    this.reading = null; // the name of the file that is on its way
    this.refused = null;
    const ids = { control: `recipe-${field.name}`, hint: `recipe-${field.name}-hint`, fault: `recipe-${field.name}-fault` };
    this.control = h("input", {
      type: "file", id: ids.control, class: "visually-hidden recipe-file", multiple: several,
      "aria-label": field.label, "aria-describedby": `${ids.fault} ${ids.hint}`,
      onchange: () => {
        this.give([...this.control.files]);
        this.control.value = "";
      },
    });
    this.words = h("span", { class: "recipe-drop-words" });
    this.zone = h("label", { class: "recipe-drop", for: ids.control }, this.words);
    this.fault = h("div", { class: "recipe-fault", id: ids.fault });
    this.box = h("div", { class: "recipe-drop-box" });
    this.hintLine = h("div", { class: "hint", id: ids.hint });
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
      this.hintLine,
    );
  }

  hint() {
    return this.field.hint;
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
    this.give(this.control.multiple ? files : files.slice(0, 1));
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

  draw(fault) {
    this.control.accept = acceptsOf(this.name);
    setText(this.hintLine, this.hint());
    const there = this.there();
    arrange(this.box, [...there, this.zone]);
    this.zone.classList.toggle("again", there.length > 0);
    setText(this.words, this.reading ? `Reading ${this.reading}…` : this.asks(there.length > 0));
    const words = this.refused ?? fault;
    setText(this.fault, words ?? "");
    if (words) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
  }
}
