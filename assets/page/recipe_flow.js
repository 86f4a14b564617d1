// FlowCache in the rail: the mode, presets, the settings that the mode looks at, and what to expect.
import { arrange, button, h, setText } from "./dom.js";
import { counts } from "./recipe_check.js";
import { draft, edit, setField, valueOf } from "./recipe_draft.js";
import { defaultOf, facts, fieldOf, modelOf } from "./recipe_facts.js";
import { fieldFor, framed, nameReset } from "./recipe_fields.js";

const MODES = {
  off: "Everything is computed in every step.",
  exact: "Skips chunks that are finished or have not begun.",
  flow: "Skips steps in which a chunk moves little, and what exact skips.",
  teacache: "Like flow, but all chunks skip together. For comparison.",
};

export class FlowBox {
  // `order` is the OrderPart, which hears from the studio what the draft comes to.
  constructor(order) {
    this.order = order;
    const field = fieldOf("flowcache");
    this.mode = h("select", { onchange: () => setField("flowcache", this.mode.value) });
    this.reset = h("button", { type: "button", class: "recipe-reset", hidden: true, onclick: () => setField("flowcache", null) });
    this.frame = framed("flowcache", "Mode", this.mode, {
      hint: field.hint, inline: true, reset: { element: this.reset, draw: () => this.drawReset() },
    });
    this.presets = h("div", { class: "recipe-flow-presets", role: "group", "aria-label": "As published" });
    this.from = h("div", { class: "hint" });
    this.offer = h("div", { class: "recipe-flow-offer" }, this.presets, this.from);
    this.promise = h("p", { class: "recipe-flow-promise", role: "status" });
    this.settings = facts.fields.filter((one) => one.group === "flowcache" && one !== field).map(fieldFor);
    this.now = h("span", { class: "recipe-flow-now" });
    this.wrong = h("span", { class: "recipe-wrong" });
    this.list = h("div", {});
    this.element = h("details", { class: "recipe-more recipe-flow" }, h("summary", {}, "FlowCache", this.now, this.wrong), this.list);
    this.heard = null; // {mode, exact, words}: what the studio said last
    this.drawn = "";
  }

  draw(faults) {
    const model = modelOf(draft.model);
    const mode = valueOf("flowcache");
    this.drawModes(model, mode);
    this.drawPresets(model);
    setText(this.frame.hintLine, MODES[mode] ?? "");
    this.frame.draw(faults.flowcache);
    const shown = this.settings.filter((one) => counts(fieldOf(one.name)));
    for (const one of shown) one.draw(faults[one.name]);
    this.drawPromise(mode);
    arrange(this.list, [
      this.frame.element, this.promise.textContent ? this.promise : null,
      this.presets.children.length ? this.offer : null, ...shown.map((one) => one.element),
    ]);
    const threshold = shown.some((one) => one.name === "flowcache_threshold") ? ` ${valueOf("flowcache_threshold")}` : "";
    setText(this.now, `${mode}${threshold}`);
    const hidden = [this.frame, ...shown].filter((one) => faults[one.name]).length;
    setText(this.wrong, hidden && !this.element.open ? `${hidden} to put right` : "");
  }

  // Only what the model can do; and what the draft says, where that is something else.
  drawModes(model, mode) {
    const able = ["off", ...(model?.flowcache_modes ?? [])];
    const key = JSON.stringify([able, mode]);
    if (key !== this.drawn) {
      this.drawn = key;
      const options = able.map((one) => h("option", { value: one }, one));
      if (!able.includes(mode)) options.push(h("option", { value: mode, disabled: true }, `${mode}: not with this model`));
      this.mode.replaceChildren(...options);
    }
    this.mode.value = mode;
  }

  drawReset() {
    this.reset.hidden = !("flowcache" in draft.recipe);
    nameReset(this.reset, defaultOf("flowcache", modelOf(draft.model)));
  }

  drawPresets(model) {
    const known = model?.flowcache_presets ?? {};
    const names = JSON.stringify(known);
    if (names !== this.named) {
      this.named = names;
      const buttons = Object.entries(known).map(([name, fields]) =>
        button(name, {
          text: true, class: "small", title: `threshold ${fields.flowcache_threshold}, warm-up ${fields.flowcache_warmup}`,
          onclick: () => edit({ recipe: { ...draft.recipe, ...fields } }),
        }),
      );
      const label = h("span", { class: "label", "aria-hidden": "true" }, "As published");
      this.presets.replaceChildren(...(buttons.length ? [label, ...buttons] : []));
      setText(this.from, model?.flowcache_presets_from ?? "");
    }
    [...this.presets.querySelectorAll("button")].forEach((one, i) => {
      const fields = Object.values(known)[i];
      one.setAttribute("aria-pressed", Object.entries(fields).every(([name, value]) => valueOf(name) === value));
    });
  }

  drawPromise(mode) {
    const said = this.order.current()?.flowcache;
    if (said) this.heard = { mode, ...said };
    const { words, exact } = this.heard?.mode === mode ? this.heard : { words: "", exact: true };
    setText(this.promise, words);
    this.promise.classList.toggle("is-exact", exact);
  }
}
