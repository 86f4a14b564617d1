// What a take on the stage is called there, and what a cell needs to show it.
import { resultOf } from "./api.js";
import { divergence } from "./store.js";

const MOST_SEEDS = 3;

export const isImage = (take) => take.result.endsWith(".png");

export const secondsOf = (take) => framesOf(take) / take.fps;

const framesOf = (take) => take.frames.at(-1)[1];

export function itemOf(take, label) {
  const { fps, width, height } = take;
  return { src: resultOf(take.id), image: isImage(take), frames: framesOf(take), fps, width, height, label };
}

// The i-th of these takes: by the seeds that set it apart from the others.
export function nameOf(take, i, takes) {
  if (takes.length === 1) {
    return take.baseline ? `Baseline · ${seedsOf(take, 0)}` : `Take · ${seedsOf(take, take.keep)}`;
  }
  const others = takes.filter((other) => other !== take);
  const told = take.baseline ? "baseline" : seedsOf(take, partOf([take, ...others]));
  return takes.length === 2 ? `${"AB"[i]} · ${told}` : told.replace(/^b/, "B");
}

// The segment from which the first of these takes differs from any of the others.
export function partOf([take, ...others]) {
  return Math.min(...others.map((other) => divergence(take, other)));
}

// The seeds of a take from a segment on, each once.
function seedsOf(take, from) {
  const seeds = [...new Set(take.seeds.slice(from))];
  if (!seeds.length) return "the same";
  const few = seeds.slice(0, MOST_SEEDS).join(", ");
  return `${seeds.length > 1 ? "seeds" : "seed"} ${few}${seeds.length > MOST_SEEDS ? " …" : ""}`;
}
