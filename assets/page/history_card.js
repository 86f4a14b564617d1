// One take in the history: what it is, its stars, open it, delete it.
import { posterOf, put } from "./api.js";
import { button, h, setText } from "./dom.js";
import { ago } from "./format.js";
import { attempt } from "./toasts.js";

let serial = 0;

// `on` has open(take) and remove(take, card).
export class TakeCard {
  constructor(take, on) {
    this.take = take;
    const id = `history-${(serial += 1)}`;
    const poster = h("img", { class: "history-poster", alt: "", loading: "lazy", decoding: "async", draggable: "false" });
    poster.addEventListener("error", () => poster.classList.add("is-missing"));
    if (take.poster) poster.src = posterOf(take.poster);
    const prompt = h("bdi", { class: "history-prompt", id: `${id}-prompt`, dir: "auto" }, take.prompt);
    const facts = h("span", { class: "history-facts", id: `${id}-facts` }, h("bdi", {}, take.session), ` · ${factsOf(take)}`);
    const seeds = seedsOf(take);
    this.face = h(
      "button",
      {
        type: "button", class: "history-face", "aria-label": "Open this take",
        "aria-describedby": `${id}-prompt ${id}-facts`, onclick: () => on.open(take),
      },
      poster,
      h("span", { class: "history-text" },
        prompt,
        take.note ? h("bdi", { class: "history-note", dir: "auto" }, take.note) : null,
        facts,
        h("span", { class: "history-facts" },
          h("span", { class: "seed", title: seeds }, seeds),
          take.baseline ? h("span", { class: "badge" }, "baseline") : null)),
    );
    const bin = button("Delete", { icon: "trash", class: "small quiet", "aria-describedby": `${id}-prompt`, onclick: () => on.remove(take, this) });
    this.element = h(
      "div", { class: "history-card", role: "listitem", "data-take": take.id },
      this.face,
      h("div", { class: "history-row" }, this.stars(id), h("time", { class: "muted", datetime: take.created, title: new Date(take.created).toLocaleString() }, ago(take.created)), bin),
    );
  }

  // Radios that look like stars: one stop of the tab key, the arrows choose.
  stars(id) {
    const { take } = this;
    const choices = [0, 1, 2, 3, 4, 5].map((n) => {
      const input = h("input", {
        type: "radio", class: "visually-hidden", name: `${id}-stars`, value: String(n), checked: n === take.stars,
        "aria-label": n === 0 ? "No stars" : n === 1 ? "1 star" : `${n} stars`,
        onchange: () => this.rate(n),
        // The same star again takes all of them back. A star that is new is told by `change`, later.
        onclick: () => n && n === take.stars && this.clear(),
      });
      const label = h("label", { class: n ? "history-star" : "history-star is-none", title: n ? `${n} of 5` : "No stars" }, input);
      return { control: input, label };
    });
    this.choices = choices;
    const box = h("div", { class: "history-stars", role: "radiogroup", "aria-label": "Stars" }, choices.map(({ label }) => label));
    this.light(take.stars);
    return box;
  }

  clear() {
    this.choices[0].control.checked = true;
    this.rate(0);
  }

  light(stars) {
    this.choices.forEach(({ label }, n) => label.classList.toggle("on", n > 0 && n <= stars));
  }

  async rate(stars) {
    const { take } = this;
    const before = take.stars;
    take.stars = stars;
    this.light(stars);
    if ((await attempt(() => put(`/api/takes/${take.id}/stars`, { stars }))) !== undefined) return;
    take.stars = before;
    this.light(before);
    this.choices[before].control.checked = true;
  }
}

function factsOf(take) {
  const parts = take.segments === 1 ? "1 segment" : `${take.segments} segments`;
  return `${parts} · ${take.seconds.toFixed(1)} s · ${modelName(take.model)}`;
}

// A model that is a folder goes by the folder's name.
export const modelName = (model) => (/^([/~]|[A-Za-z]:)/.test(model) ? model.split(/[\\/]/).filter(Boolean).pop() : model);

function seedsOf(take) {
  const seeds = new Set(take.seeds).size === 1 ? take.seeds.slice(0, 1) : take.seeds;
  return `${seeds.length === 1 ? "seed" : "seeds"} ${seeds.join(", ")}`;
}

// One session: its last poster, its name, how many takes.
export function sessionCard(session, open) {
  const id = `history-${(serial += 1)}`;
  const poster = h("img", { class: "history-poster", alt: "", loading: "lazy", decoding: "async", draggable: "false" });
  poster.addEventListener("error", () => poster.classList.add("is-missing"));
  if (session.poster) poster.src = posterOf(session.poster);
  const name = h("bdi", { class: "history-prompt", id: `${id}-name`, dir: "auto" });
  setText(name, session.name);
  const takes = session.takes === 1 ? "1 take" : `${session.takes} takes`;
  const facts = h("span", { class: "history-facts", id: `${id}-facts` }, `${takes} · begun ${ago(session.created)}`);
  return h(
    "div", { class: "history-card", role: "listitem" },
    h(
      "button",
      { type: "button", class: "history-face", "aria-label": "Open this session", "aria-describedby": `${id}-name ${id}-facts`, onclick: open },
      poster,
      h("span", { class: "history-text" }, name, facts),
    ),
  );
}
