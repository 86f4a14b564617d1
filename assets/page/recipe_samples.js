// What the chosen model comes with to be tried: one press fills the prompt, the picture, the voice.
import { post } from "./api.js";
import { arrange, button, h } from "./dom.js";
import { carryOn, draft, herePlace, isPlace, replace, WRITTEN } from "./recipe_draft.js";
import { modelOf } from "./recipe_facts.js";
import { openSession, store } from "./store.js";
import { toast } from "./toasts.js";

export class SamplesRow {
  constructor() {
    this.element = h("div", { class: "recipe-samples", role: "group", "aria-label": "Samples" });
    this.drawn = "";
  }

  draw() {
    const model = modelOf(draft.model);
    const samples = model?.present ? model.samples : [];
    const key = JSON.stringify([model?.id, samples]);
    if (key === this.drawn) return;
    this.drawn = key;
    const buttons = samples.map((one, number) => button(one.label, { class: "small", onclick: () => this.take(number) }));
    arrange(this.element, samples.length ? [h("span", { class: "hint" }, "Try"), ...buttons] : []);
  }

  async take(number) {
    const place = herePlace();
    const model = draft.model;
    try {
      const told = await post("/api/samples", { model, number });
      if (!isPlace(place) || draft.model !== model) return;
      // Takes of one session are compared: those of another model are no match.
      if (store.session?.takes.some((take) => take.model !== model)) {
        await carryOn();
        await openSession(null);
      }
      const settings = Object.entries(draft.recipe).filter(([name]) => !WRITTEN.includes(name) && name !== "segments");
      replace(
        { recipe: { ...Object.fromEntries(settings), ...told.recipe }, files: { ...draft.files, ...told.files } },
        "The sample is in the rail.",
      );
    } catch (error) {
      toast(error.message, { bad: true });
    }
  }
}
