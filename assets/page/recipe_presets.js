// Presets: recipes under a name, to begin again with.
import { get, part, put, remove } from "./api.js";
import { arrange, button, h, setText } from "./dom.js";
import { checked } from "./recipe_check.js";
import { fromRecipe, replace } from "./recipe_draft.js";
import { attempt, toast } from "./toasts.js";

export class Presets {
  constructor() {
    this.presets = [];
    this.toggle = button("Presets", {
      class: "small quiet", "aria-expanded": "false", "aria-controls": "recipe-presets", onclick: () => this.open(this.element.hidden),
    });
    this.list = h("ul", { class: "recipe-preset-list" });
    this.input = h("input", {
      type: "text", class: "input", "aria-label": "Name of the preset", placeholder: "Name", maxlength: 60, autocomplete: "off",
      dir: "auto", oninput: () => this.draw(),
    });
    this.save = button("Save", { class: "recipe-preset-save", type: "submit" });
    this.told = h("p", { class: "hint", role: "status" });
    const form = h("form", { class: "recipe-preset-form", onsubmit: (event) => (event.preventDefault(), this.keep()) }, this.input, this.save);
    this.element = h(
      "section",
      { class: "recipe-presets", id: "recipe-presets", hidden: true, "aria-label": "Presets", onkeydown: (event) => this.key(event) },
      this.list,
      form,
      this.told,
    );
  }

  async open(on) {
    this.element.hidden = !on;
    this.toggle.setAttribute("aria-expanded", String(on));
    if (!on) return;
    await this.read();
    (this.list.querySelector("button") ?? this.input).focus();
  }

  key(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    this.open(false);
    this.toggle.focus();
  }

  async read() {
    this.presets = (await attempt(() => get("/api/presets"))) ?? [];
    this.draw();
  }

  named() {
    const name = this.input.value.trim().split(/\s+/).join(" ").normalize("NFC");
    return { name, old: this.presets.find((preset) => preset.name === name) ?? null };
  }

  draw() {
    const { name, old } = this.named();
    setText(this.save, old ? "Overwrite" : "Save");
    this.save.disabled = !name;
    const why = name ? "" : "Give the recipe as it is now a name, to save it.";
    setText(this.told, old ? "Puts this recipe in place of the preset of that name." : why);
    arrange(this.list, this.presets.map((preset) => this.item(preset)));
  }

  item(preset) {
    const load = h("button", { type: "button", class: "btn quiet small recipe-preset", onclick: () => this.load(preset) }, h("bdi", {}, preset.name));
    load.title = preset.recipe.prompt ?? "";
    const away = button(`Delete the preset ${preset.name}`, { icon: "trash", class: "small quiet", onclick: () => this.drop(preset) });
    return h("li", {}, load, away);
  }

  load(preset) {
    replace(fromRecipe(preset.recipe), `The preset ${preset.name} is loaded.`);
    this.input.value = preset.name;
    this.draw();
  }

  async keep() {
    const { name, old } = this.named();
    if (!name) return;
    const { model, recipe } = checked();
    const saved = await this.change(() => put(`/api/presets/${part(name)}`, { recipe: { ...recipe, model } }));
    if (!saved) return;
    const words = old ? `The preset ${name} is overwritten.` : `The preset ${name} is saved.`;
    const undo = old ? () => put(`/api/presets/${part(name)}`, { recipe: old.recipe }) : () => remove(`/api/presets/${part(name)}`);
    toast(words, { action: { name: "Undo", run: () => this.change(undo) } });
  }

  async drop(preset) {
    const gone = await this.change(() => remove(`/api/presets/${part(preset.name)}`));
    if (!gone) return;
    const undo = () => put(`/api/presets/${part(preset.name)}`, { recipe: preset.recipe });
    toast(`The preset ${preset.name} is deleted.`, { action: { name: "Undo", run: () => this.change(undo) } });
    (this.list.querySelector("button") ?? this.input).focus();
  }

  async change(run) {
    const done = await attempt(run);
    await this.read();
    return done !== undefined;
  }
}
