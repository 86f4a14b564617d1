// How the model is held in memory: what the studio would choose here, with the reason, and only such
// choices as work together on this machine.
import { setText } from "./dom.js";
import { valueOf } from "./recipe_draft.js";

const PLACE = { weights: 0, offload: 1 };

// `fields` are those of the rail by name; `held` is what an estimate says, or nothing yet.
export function drawMemory(fields, held) {
  for (const [name, place] of Object.entries(PLACE)) {
    const field = fields.find((one) => one.name === name);
    if (!field || !held) continue;
    const other = valueOf(name === "weights" ? "offload" : "weights");
    const works = held.offered.filter((pair) => other === "auto" || pair[1 - place] === other).map((pair) => pair[place]);
    for (const option of field.control.options) {
      const value = option.value;
      option.disabled = value !== "auto" && !works.includes(value) && value !== valueOf(name);
      setText(option, value === "auto" ? `auto: ${held[name]}` : value);
    }
  }
  const weights = fields.find((one) => one.name === "weights");
  if (weights && held) setText(weights.hintLine, held.reason);
}
