// The recipe rail: the draft of the next take, field by field, and the button that makes it.
import { commands, run } from "./commands.js";
import { arrange, button, h, setText } from "./dom.js";
import { changedFields, changes, changesReady, ChangesNote } from "./recipe_changes.js";
import { checked, counts } from "./recipe_check.js";
import { chooseModel, draft, follow, fromRecipe, isReady, replace, restarted, WRITTEN } from "./recipe_draft.js";
import { facts, fieldOf, modelOf, readFacts, readModels, reads } from "./recipe_facts.js";
import { FacesField } from "./recipe_faces.js";
import { fieldFor, framed, segmentsField, textField } from "./recipe_fields.js";
import { FlowBox } from "./recipe_flow.js";
import { FilesField, InputField, LorasField } from "./recipe_files.js";
import { setInput } from "./recipe_inputs.js";
import { drawMemory } from "./recipe_memory.js";
import { OrderPart } from "./recipe_order.js";
import { Presets } from "./recipe_presets.js";
import { SamplesRow } from "./recipe_samples.js";
import { SeedField } from "./recipe_seed.js";
import { SessionRow } from "./recipe_session.js";
import { SizeField } from "./recipe_size.js";
import { changed, on, ready, subscribe } from "./store.js";
import { toast } from "./toasts.js";

const AGAIN_MS = 2000;

export async function mount(element) {
  const waiting = h("p", { class: "recipe-waiting muted", role: "status" });
  element.append(h("div", { class: "panel recipe-panel" }, waiting));
  for (;;) {
    try {
      await readFacts();
      break;
    } catch (error) {
      setText(waiting, error.message);
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }
  await ready;
  await follow();
  new Rail(element);
}

class ModelField {
  constructor() {
    const field = fieldOf("model");
    this.name = "model";
    this.control = h("select", {
      onchange: () => chooseModel(this.control.value),
      onfocus: () => readModels().catch(() => {}),
    });
    const more = button("All models", { icon: "models", onclick: () => run("openModels") });
    this.frame = framed("model", field.label, this.control, { hint: field.hint, extra: [more] });
    this.element = this.frame.element;
    this.drawn = "";
  }

  draw(fault) {
    const models = [...facts.models].sort((a, b) => b.present - a.present);
    const key = JSON.stringify([draft.model, models.map((model) => [model.id, model.name, model.present])]);
    if (key !== this.drawn) {
      this.drawn = key;
      const options = models.map((model) =>
        h("option", { value: model.id, disabled: !model.present }, model.present ? model.name : `${model.name}: not here`),
      );
      if (!modelOf(draft.model)) options.push(h("option", { value: draft.model, disabled: true }, `${draft.model}: not known here`));
      this.control.replaceChildren(...options);
    }
    this.control.value = draft.model;
    setText(this.frame.hintLine, modelOf(draft.model)?.note || fieldOf("model").hint);
    this.frame.draw(fault);
  }
}

function anyFieldFor(field) {
  if (field.name === "faces") return new FacesField(field);
  const Files = { file: InputField, files: FilesField, loras: LorasField }[field.kind];
  return Files ? new Files(field) : fieldFor(field);
}

class Rail {
  constructor(element) {
    this.session = new SessionRow();
    this.presets = new Presets();
    this.note = new ChangesNote();
    this.order = new OrderPart((field) => this.point(field));
    this.model = new ModelField();
    this.samples = new SamplesRow();
    this.prompt = textField(fieldOf("prompt"));
    this.negative = textField(fieldOf("negative_prompt"));
    this.negativeBox = h("details", { class: "recipe-more" }, h("summary", {}, "Negative prompt"), this.negative.element);
    this.inputs = facts.fields.filter((field) => field.group === "inputs").map(anyFieldFor);
    this.segments = segmentsField(fieldOf("segments"));
    this.seed = new SeedField();
    this.size = new SizeField();
    this.more = facts.fields.filter((field) => field.group === "more").map(anyFieldFor);
    this.flow = new FlowBox(this.order);
    this.wrong = h("span", { class: "recipe-wrong" });
    this.back = button("Back to the model's defaults", { class: "small", onclick: () => this.reset() });
    this.moreList = h("div", {});
    this.moreBox = h("details", { class: "recipe-more" }, h("summary", {}, "More settings", this.wrong), this.moreList);
    this.fields = h("div", { class: "recipe-fields" });
    this.body = h("div", { class: "recipe-body" }, this.presets.element, this.fields);
    const top = h("div", { class: "recipe-top" }, this.session.select, this.session.fresh, this.presets.toggle);
    this.element = h("div", { class: "panel recipe-panel" }, top, this.body, this.note.element, this.order.element);
    element.replaceChildren(this.element);
    this.addCommands();
    on("back", () => {
      restarted();
      readModels().catch(() => {});
    });
    subscribe(this.element, () => this.draw());
  }

  addCommands() {
    Object.assign(commands, {
      generate: () => this.order.go(),
      setRecipe: (recipe, seeds = null) => replace(fromRecipe(recipe, seeds), "The recipe is in the rail."),
      draftRecipe: () => {
        const { model, recipe, seeds } = checked();
        return { model, recipe, seeds };
      },
      takesInput: (kind) => reads(modelOf(draft.model), fieldOf(kind)),
      setInput: (kind, file) => setInput(kind, file).catch((error) => toast(error.message, { bad: true })),
      changes,
      changedFields,
      changesReady,
      readModels: () => readModels().catch(() => {}),
    });
  }

  draw() {
    follow();
    if (!isReady()) return;
    const model = modelOf(draft.model);
    const faults = this.order.faults();
    const seen = (list) => list.filter((one) => reads(model, fieldOf(one.name)));
    const inputs = this.inputs.filter((one) => counts(fieldOf(one.name)));
    const more = seen(this.more);
    const parts = [this.model, this.prompt, this.negative, ...inputs, this.segments, this.seed, ...more];
    for (const part of parts) part.draw(faults[part.name]);
    this.samples.draw();
    drawMemory(more, this.order.current()?.held);
    this.size.draw(faults);
    this.flow.draw(faults);
    if (draft.recipe.negative_prompt || faults.negative_prompt) this.negativeBox.open = true;
    const chain = reads(model, fieldOf("segments"));
    arrange(this.fields, [
      this.model.element, this.samples.element, this.prompt.element, this.negativeBox, ...inputs.map((one) => one.element),
      chain ? this.segments.element : null, this.seed.element, this.moreBox,
      reads(model, fieldOf("flowcache")) ? this.flow.element : null,
    ]);
    arrange(this.moreList, [
      this.size.element, ...more.map((one) => one.element), this.back,
    ]);
    const hidden = [...more, ...this.size.sides].filter((one) => faults[one.name]).length;
    setText(this.wrong, hidden && !this.moreBox.open ? `${hidden} to put right` : "");
    this.back.hidden = !model || !this.ownSettings().length;
    this.session.draw();
    this.note.draw();
    this.order.draw(faults);
  }

  ownSettings() {
    return Object.keys(draft.recipe).filter((name) => !WRITTEN.includes(name));
  }

  reset() {
    const recipe = Object.fromEntries(Object.entries(draft.recipe).filter(([name]) => WRITTEN.includes(name)));
    replace({ recipe }, `The settings are those of ${modelOf(draft.model).name}.`);
  }

  // Opens what a field lies in, and goes there.
  point(name) {
    changed();
    const found = this.element.querySelector(`[data-field="${CSS.escape(name)}"]`);
    if (!found) return;
    for (let box = found.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    found.querySelector("input, textarea, select").focus();
  }
}
