// What the draft comes to as an order, and what is wrong with it as far as the page can tell.
import { draft, valueOf } from "./recipe_draft.js";
import { defaultOf, facts, modelOf, NOT_HERE, reads } from "./recipe_facts.js";

const MOST_SEED = Number.MAX_SAFE_INTEGER;
const WHOLE = /^[+-]?\d+$/;
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

// A number if it is one, else the text as it was typed; null for nothing.
export function parsed(text, field) {
  const plain = text.trim().replace(",", ".");
  if (plain === "") return null;
  const number = Number(plain);
  const fits = (field.kind === "integer" ? WHOLE : DECIMAL).test(plain) && Number.isFinite(number);
  return fits ? number : text;
}

export function limits(field) {
  if (field.kind !== "integer" && field.kind !== "number") return "";
  const most = field.max === null ? "" : `${field.max}`;
  if (field.above !== null) return most ? `More than ${field.above}, up to ${most}.` : `More than ${field.above}.`;
  if (field.min === null) return most && `At most ${most}.`;
  return most ? `${field.min}–${most}.` : `At least ${field.min}.`;
}

// Of two persons; with one voice there is nothing to tell apart.
const OF_TWO = ["faces", "masks"];

// Whether a field makes a difference as the draft stands, so that it is shown and sent. What was
// given is, whether it does or not.
export function counts(field) {
  if (OF_TWO.includes(field.name) && !draft.recipe.audio_2 && !draft.recipe[field.name]?.length) return false;
  return reads(modelOf(draft.model), field) && (!field.modes || field.modes.includes(valueOf("flowcache")));
}

function faultOf(field, value) {
  if (field.kind === "integer" || field.kind === "number") {
    const kind = field.kind === "integer" ? "a whole number" : "a number";
    const low = field.min !== null ? value < field.min : field.above !== null && value <= field.above;
    const high = field.max !== null && value > field.max;
    const right = typeof value === "number" && (field.kind === "number" || Number.isInteger(value));
    return right && !low && !high ? null : `Use ${kind}. ${limits(field)}`.trim();
  }
  if (field.kind !== "text") return null;
  const text = String(value ?? "").trim();
  if (field.name === "prompt" && !text) return "It is empty: say what to show.";
  // Characters as the studio counts them; only a text that may be too long is worth the counting.
  const length = field.max !== null && text.length > field.max ? [...text].length : 0;
  if (length <= (field.max ?? 0)) return null;
  return `It has ${length.toLocaleString("en")} characters; the most is ${field.max.toLocaleString("en")}.`;
}

// {seeds: [...] or null to have one drawn, fault}
export function seeds() {
  const words = draft.seed.split(/[\s,;]+/).filter(Boolean);
  if (!words.length) return { seeds: null, fault: null };
  const found = words.map(Number);
  const right = words.every((word, i) => /^\d+$/.test(word) && found[i] <= MOST_SEED);
  const fault = right ? null : `A seed is a whole number from 0 to ${MOST_SEED}; give one, or one for each segment.`;
  return { seeds: found, fault };
}

// {model, recipe, seeds, faults: {field: words}}; only what the model looks at is in it.
export function checked() {
  const model = modelOf(draft.model);
  const recipe = {};
  const faults = model ? {} : { model: NOT_HERE };
  for (const field of facts.fields) {
    if (field.name === "model" || !counts(field)) continue;
    if (field.name in draft.recipe) recipe[field.name] = draft.recipe[field.name];
    const fault = faultOf(field, valueOf(field.name));
    // Nothing is known of the fields of a model that is not in the list.
    if (fault && (model || field.name in recipe)) faults[field.name] = fault;
  }
  const given = seeds();
  if (given.fault) faults.seeds = given.fault;
  return { model: draft.model, recipe, seeds: given.seeds, faults };
}

// Every field as the studio would fill it in.
export function wholeRecipe() {
  const { model, recipe } = checked();
  const known = modelOf(model);
  const whole = facts.fields.map(({ name }) => [name, recipe[name] ?? defaultOf(name, known)]);
  return { ...Object.fromEntries(whole), model };
}

// Length in seconds of so many segments: P(n) = n (F - M) + M frames. Null where a voice decides.
export function secondsOf(segments) {
  if (modelOf(draft.model)?.takes_audio) return null;
  const [F, M, fps] = ["frames", "overlap", "fps"].map(valueOf);
  const length = (segments * (F - M) + M) / fps;
  return Number.isFinite(length) && F > M && segments > 0 ? length : null;
}
