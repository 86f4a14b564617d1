// The skip map of a segment: steps from left to right, chunks from top to bottom, computed or reused.
import { arrange, h, setText } from "./dom.js";

const KINDS = [
  { name: "computed", told: "computed", is: (ran, moved) => ran && moved, size: 0.86 },
  { name: "reused", told: "reused", is: (ran, moved) => !ran && moved, size: 0.86 },
  { name: "keys", told: "keys and values only", is: (ran, moved) => ran && !moved, size: 0.42 },
];
const CELL = 11; // pixels, where there is room
const MOST_HEIGHT = 96;
const WIDE = 80; // steps from which on there is no gap between them

export class SkipMap {
  constructor() {
    this.count = h("b", {});
    this.settings = h("span", { class: "skipmap-settings" });
    this.exact = h("span", { class: "badge" });
    this.legend = h("span", { class: "skipmap-legend", "aria-hidden": "true" });
    this.first = h("span", {});
    this.last = h("span", {});
    this.picture = h("div", { class: "skipmap-picture" });
    this.start = h("span", {});
    this.end = h("span", {});
    this.lines = h("ul", { class: "visually-hidden" });
    this.element = h(
      "figure",
      { class: "skipmap" },
      h("div", { class: "skipmap-map", "aria-hidden": "true" },
        h("span", { class: "skipmap-chunks" }, this.first, this.last), this.picture,
        h("span", { class: "skipmap-steps" }, this.start, this.end)),
      h("figcaption", { class: "skipmap-words" },
        h("span", { class: "skipmap-line" }, this.count, this.settings, this.exact), this.legend, this.lines),
    );
    this.drawn = null;
  }

  // `map` is what the studio recorded of one segment, `settings` its settings at a glance.
  draw(map, number, settings) {
    if (this.drawn === map) return;
    this.drawn = map;
    this.element.setAttribute("aria-label", `Skip map of segment ${number}`);
    setText(this.count, counted(map));
    setText(this.settings, settings);
    setText(this.exact, map.exact ? "exact" : "not exact");
    this.exact.title = map.exact
      ? "The same video as without FlowCache, but for rounding"
      : "Close to the video without FlowCache, not the same";
    this.exact.classList.toggle("is-exact", map.exact);
    setText(this.first, map.chunks > 1 ? "chunk 1" : "chunk");
    setText(this.last, map.chunks > 1 ? `${map.chunks}` : "");
    setText(this.start, "step 1");
    setText(this.end, map.steps > 1 ? `${map.steps}` : "");
    const cells = KINDS.map((kind) => ({ ...kind, path: path(map, kind) })).filter((kind) => kind.path);
    this.picture.replaceChildren(svg(map, cells));
    arrange(this.legend, cells.map((kind) => h("span", { class: `skipmap-key is-${kind.name}` }, kind.told)));
    this.lines.replaceChildren(...rows(map).map((words) => h("li", {}, words)));
  }
}

// "70 of 168 chunk passes computed, 2.4× fewer"
function counted({ passes, plain_passes: plain }) {
  const fewer = plain > passes && passes ? `, ${(plain / passes).toFixed(1)}× fewer` : "";
  return `${passes} of ${plain} chunk passes computed${fewer}`;
}

function path(map, { is, size }) {
  const width = map.steps > WIDE ? 1 : size;
  const [left, top] = [(1 - width) / 2, (1 - size) / 2];
  let found = "";
  map.moved.forEach((moved, step) => {
    moved.forEach((one, chunk) => {
      if (is(map.computed[step][chunk], one)) found += `M${(step + left).toFixed(2)} ${(chunk + top).toFixed(2)}h${width}v${size}h-${width}z`;
    });
  });
  return found;
}

function svg(map, cells) {
  const make = (tag, given) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
    return element;
  };
  const height = Math.min(map.chunks * CELL, MOST_HEIGHT);
  const picture = make("svg", { viewBox: `0 0 ${map.steps} ${map.chunks}`, preserveAspectRatio: "none", width: map.steps * CELL, height });
  picture.append(...cells.map(({ name, path }) => make("path", { class: `is-${name}`, d: path })));
  return picture;
}

// A sentence for each chunk, for whoever does not see the picture.
function rows(map) {
  return Array.from({ length: map.chunks }, (_, chunk) => {
    const steps = (is) => spans(map.moved.flatMap((moved, step) => (is(map.computed[step][chunk], moved[chunk]) ? [step + 1] : [])));
    const parts = KINDS.map(({ told, is }) => [told, steps(is)]).filter(([, found]) => found);
    return `Chunk ${chunk + 1}: ${parts.map(([told, found]) => `${told} in ${found}`).join("; ") || "not run"}.`;
  });
}

// "steps 1–3 and 7"
function spans(steps) {
  const found = [];
  for (const step of steps) {
    if (found.at(-1)?.[1] === step - 1) found.at(-1)[1] = step;
    else found.push([step, step]);
  }
  const words = found.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  if (!words.length) return "";
  const all = words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0];
  return `${steps.length > 1 ? "steps" : "step"} ${all}`;
}
