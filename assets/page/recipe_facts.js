// What the studio says about the fields of a recipe and about its models.
import { get } from "./api.js";
import { changed } from "./store.js";

export const NOT_HERE = "This model is not here: add its folder in Models.";
export const facts = { fields: [], models: [] };

export async function readFacts() {
  const [fields, models] = await Promise.all([get("/api/fields"), get("/api/models")]);
  Object.assign(facts, { fields, models });
}

// Again, since one may have come or gone.
export async function readModels() {
  facts.models = await get("/api/models");
  changed();
}

export const modelOf = (id) => facts.models.find((model) => model.id === id) ?? null;
export const fieldOf = (name) => facts.fields.find((field) => field.name === name) ?? null;
export const firstPresent = () => facts.models.find((model) => model.present) ?? facts.models[0];

export function defaultOf(name, model) {
  return model?.defaults[name] ?? fieldOf(name)?.default ?? null;
}

const OF_A_CHAIN = ["segments", "fps", "frames", "overlap"];

// Whether a model looks at a field, so that it is shown and sent.
export function reads(model, field) {
  if (field.name === "image") return model?.takes_image ?? false;
  if (field.name === "audio") return model?.takes_audio ?? false;
  if (field.of_some) return model?.extras.includes(field.name) ?? false;
  if (!model || ["model", "prompt", "negative_prompt"].includes(field.name)) return true;
  if (model.single_frame && OF_A_CHAIN.includes(field.name)) return false;
  if (field.group === "flowcache") return model.flowcache_modes.length > 0;
  return field.name in model.defaults || field.group === "size" || field.name === "segments";
}
