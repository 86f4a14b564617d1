// In how many pixels the studio reads a picture or a video: boxes count those. A browser may see others,
// of a video whose pixels are no squares or a picture that is turned.
import { get } from "./api.js";
import { urlOf } from "./recipe_inputs.js";

const APART = 0.04; // by which the proportions of the same picture may differ, from rounding

const asked = new Map(); // by path; a file of the library stays as it is

// Resolves to [width, height]; to null if the studio does not answer, and is asked again then.
export function sizeAsRead(path) {
  if (!asked.has(path)) asked.set(path, ask(path));
  return asked.get(path);
}

async function ask(path) {
  try {
    const { width, height } = await get(`${urlOf(path)}/size`);
    return [width, height];
  } catch {
    asked.delete(path);
    return null;
  }
}

export const alike = (one, other) => Math.abs(Math.log(one[0] / one[1] / (other[0] / other[1]))) < APART;
