// The fields of the rail that hold files: one picture or voice, further pictures, and LoRAs.
import { button, h } from "./dom.js";
import { parsed } from "./recipe_check.js";
import { draft, setField } from "./recipe_draft.js";
import { DropField } from "./recipe_drop.js";
import { modelOf } from "./recipe_facts.js";
import { listOf, mediaOf, nameOf, takesVideo } from "./recipe_inputs.js";

const STRENGTH = { kind: "number" };
const MOST_STRENGTH = 10;
const ON_HUB = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*(\/[\w-][\w.-]*)+$/;
const PARTS = { both: "both parts", high: "high noise", low: "low noise" };

// One picture or voice; another one takes its place.
export class InputField extends DropField {
  constructor(field) {
    super(field);
    this.shown = null;
    this.filled = h("div", { class: "recipe-filled" });
  }

  asks(isThere) {
    const what = takesVideo(this.name) ? "picture or a video" : this.field.label.toLowerCase();
    return isThere ? "Another one" : `Drop a ${what} here, or choose one`;
  }

  hint() {
    return takesVideo(this.name) ? "A picture, or a video: each segment then starts from what is seen in it at that time." : super.hint();
  }

  there() {
    const path = draft.recipe[this.name] ?? null;
    if (path !== this.shown) {
      this.shown = path;
      this.refused = null;
      if (path) this.filled.replaceChildren(mediaOf(this.name, path), h("bdi", { class: "recipe-file-name" }, nameOf(path)), this.out());
    }
    return path ? [this.filled] : [];
  }

  out() {
    return button(`Remove the ${this.field.label.toLowerCase()}`, {
      icon: "close", class: "small quiet",
      onclick: () => {
        this.refused = null;
        setField(this.name, null);
        this.control.focus();
      },
    });
  }
}

// Any number of files, each in a row of its own.
export class FilesField extends DropField {
  constructor(field) {
    super(field, true);
    this.shown = null;
    this.list = h("ul", { class: "recipe-files", "aria-label": field.label });
  }

  asks(isThere) {
    return isThere ? "More" : "Drop pictures here, or choose some";
  }

  there() {
    const list = listOf(this.name);
    const now = JSON.stringify([list, draft.model]);
    if (now !== this.shown) {
      this.shown = now;
      this.list.replaceChildren(...list.map((one, i) => h("li", { class: "recipe-filled" }, ...this.row(one, i))));
    }
    return list.length ? [this.list] : [];
  }

  row(path, i) {
    return [mediaOf(this.name, path), h("bdi", { class: "recipe-file-name" }, nameOf(path)), this.out(path, i)];
  }

  out(path, i) {
    const remove = () => {
      this.put(listOf(this.name).filter((_, at) => at !== i));
      this.control.focus();
    };
    return button(`Remove ${nameOf(path)}`, { icon: "close", class: "small quiet", onclick: remove });
  }

  put(list) {
    this.refused = null;
    setField(this.name, list.length ? list : null);
  }
}

// LoRAs: files or names on the hub, each with a strength and, where there are two transformers, the
// one it is for.
export class LorasField extends FilesField {
  constructor(field) {
    super(field);
    this.hub = h("input", {
      type: "text", class: "recipe-hub", autocomplete: "off", spellcheck: "false", placeholder: "org/name/file.safetensors",
      "aria-label": "LoRA on the hub",
      onkeydown: (event) => event.key === "Enter" && (event.preventDefault(), this.add()),
    });
    this.element.insertBefore(h("div", { class: "recipe-control" }, this.hub, button("Add", { class: "small", onclick: () => this.add() })), this.fault);
  }

  asks(isThere) {
    return isThere ? "More" : "Drop LoRA files (.safetensors) here, or choose some";
  }

  add() {
    const file = this.hub.value.trim();
    if (!file) return;
    if (!ON_HUB.test(file)) {
      this.refused = "Write it as org/name/file.safetensors, as the hub does.";
      return this.draw(null);
    }
    this.hub.value = "";
    this.put([...listOf(this.name), { file, strength: 1 }]);
  }

  row(one, i) {
    const change = (patch) => this.put(listOf(this.name).map((other, at) => (at === i ? { ...other, ...patch } : other)));
    const name = nameOf(one.file);
    const strength = h("input", {
      type: "text", inputmode: "decimal", class: "number recipe-strength", autocomplete: "off",
      "aria-label": `Strength of ${name}`, value: String(one.strength),
      onchange: () => {
        const value = parsed(strength.value, STRENGTH) ?? 1;
        if (typeof value === "number" && Math.abs(value) <= MOST_STRENGTH) return change({ strength: value });
        this.refused = `The strength of ${name} is a number from -${MOST_STRENGTH} to ${MOST_STRENGTH}; ${one.strength} still counts.`;
        strength.value = String(one.strength);
        this.draw(null);
      },
    });
    const words = h("bdi", { class: "recipe-file-name" }, name);
    const parts = modelOf(draft.model)?.extras.includes("guidance_scale_2") ? [this.partOf(one, name, change)] : [];
    return [words, h("span", { class: "muted" }, "×"), strength, ...parts, this.out(one.file, i)];
  }

  partOf(one, name, change) {
    const options = Object.entries(PARTS).map(([value, words]) => h("option", { value }, words));
    const control = h("select", { "aria-label": `Part of the model for ${name}`, onchange: () => change({ part: control.value }) }, ...options);
    control.value = one.part ?? "both";
    return control;
  }
}
