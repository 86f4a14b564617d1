// Width and height as one choice of what fits the model, or as two numbers.
import { h } from "./dom.js";
import { framed, nameReset, numberField } from "./recipe_fields.js";
import { draft, edit, valueOf } from "./recipe_draft.js";
import { defaultOf, fieldOf, modelOf } from "./recipe_facts.js";

const OTHER = "other";
const key = (size) => size.join("x");

export class SizeField {
  constructor() {
    this.name = "size";
    this.open = false; // someone asked for the numbers
    this.control = h("select", { onchange: () => this.choose() });
    const reset = {
      element: h("button", { type: "button", class: "recipe-reset", hidden: true, onclick: () => this.back() }),
      draw: () => this.drawReset(),
    };
    this.reset = reset.element;
    this.frame = framed("size", "Size", this.control, { hint: "Width × height in pixels.", inline: true, reset });
    const step = (side) => () => modelOf(draft.model)?.multiple?.[side] ?? 1;
    this.sides = ["width", "height"].map((side) => numberField(fieldOf(side), { step: step(side) }));
    this.more = h("div", { class: "recipe-sides" }, ...this.sides.map((side) => side.element));
    this.element = h("div", {}, this.frame.element, this.more);
    this.drawn = "";
  }

  get sizes() {
    return modelOf(draft.model)?.sizes ?? [];
  }

  choose() {
    this.open = this.control.value === OTHER;
    const size = this.sizes.find((one) => key(one) === this.control.value);
    if (size) this.take(size);
    else this.draw({});
    if (this.open) this.sides[0].control.focus();
  }

  take([width, height]) {
    const model = modelOf(draft.model);
    const recipe = { ...draft.recipe, width, height };
    for (const side of ["width", "height"]) if (recipe[side] === defaultOf(side, model)) delete recipe[side];
    edit({ recipe });
  }

  back() {
    this.open = false;
    const { width, height, ...recipe } = draft.recipe;
    edit({ recipe });
  }

  standard() {
    const model = modelOf(draft.model);
    return ["width", "height"].map((side) => defaultOf(side, model));
  }

  drawReset() {
    this.reset.hidden = !("width" in draft.recipe || "height" in draft.recipe);
    nameReset(this.reset, this.standard().join(" × "));
  }

  draw(faults) {
    const now = [valueOf("width"), valueOf("height")];
    const listed = this.sizes.some((size) => key(size) === key(now));
    const names = JSON.stringify(this.sizes);
    if (names !== this.drawn) {
      this.drawn = names;
      this.control.replaceChildren(
        ...this.sizes.map((size) => h("option", { value: key(size) }, size.join(" × "))),
        h("option", { value: OTHER }, "Other…"),
      );
    }
    const other = this.open || !listed || Boolean(faults.width || faults.height);
    this.control.value = other ? OTHER : key(now);
    this.more.hidden = !other;
    this.frame.draw(null);
    for (const side of this.sides) side.draw(faults[side.name]);
  }
}
