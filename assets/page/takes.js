// The takes rail: the takes that share what comes before the chosen segment, as a tree that shows
// who came from whom.
import { get, post, posterOf, put, remove } from "./api.js";
import { run } from "./commands.js";
import { arrange, button, h, icon, setText } from "./dom.js";
import { ago, range } from "./format.js";
import { baseline, openSession, poll, ready, refresh, show, store, subscribe, takes } from "./store.js";
import { attempt, toast } from "./toasts.js";

const MOST_LEVELS = 5;
const MOST_ON_STAGE = 4;

export function mount(element) {
  const title = h("h2", { class: "panel-title" });
  const list = h("ul", { class: "takes-list", "aria-label": "Takes" });
  const empty = h("p", { class: "muted takes-empty" });
  element.append(h("div", { class: "panel takes-panel" }, title, list, empty));
  const cards = new Map();

  function draw() {
    const rows = tree(sharing());
    const shared = Math.min(store.selected?.index ?? 0, longest());
    const part = shared > 0 ? ` that share segment${shared > 1 ? "s" : ""} ${range(0, shared)}` : "";
    const count = store.selected ? rows.length : (store.session?.total ?? rows.length);
    setText(title, takes().length ? `Takes${part} (${count})` : "Takes");
    setText(empty, takes().length ? "" : "Every take you make is kept here. Accept the better one; nothing is lost.");
    const shown = new Set(rows.map(({ take }) => take.id));
    for (const id of cards.keys()) if (!shown.has(id)) cards.delete(id);
    arrange(list, rows.map(({ take, level }) => {
      let card = cards.get(take.id);
      if (!card) cards.set(take.id, (card = new Card()));
      card.draw(take, level);
      return card.element;
    }));
  }

  ready.then(() => subscribe(element, draw));
}

const longest = () => Math.max(0, ...takes().map((take) => take.segment_ids.length));

// The takes with the same segments before the chosen one as the take it is chosen in.
function sharing() {
  const chosen = store.selected && takes().find((take) => take.id === store.selected.take);
  if (!chosen) return takes();
  const prefix = chosen.segment_ids.slice(0, store.selected.index);
  return takes().filter((take) => prefix.every((id, i) => take.segment_ids[i] === id));
}

// Parents before their children, the newest first among those of one parent.
function tree(some) {
  const here = new Set(some.map((take) => take.id));
  const children = new Map();
  for (const take of some) {
    const parent = here.has(take.parent) ? take.parent : null;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(take);
  }
  const rows = [];
  const placed = new Set();
  const place = (take, level) => {
    if (placed.has(take.id)) return;
    placed.add(take.id);
    rows.push({ take, level });
    for (const child of children.get(take.id) ?? []) place(child, level + 1);
  };
  for (const take of children.get(null) ?? []) place(take, 0);
  // Whoever is its own ancestor has no root to be found from.
  for (const take of some) place(take, 0);
  return rows;
}

// Puts a take on the stage: beside the baseline, if it is another one.
function look(take) {
  const base = baseline();
  const beside = base && base.id !== take.id && base.width === take.width && base.height === take.height;
  show(beside ? [base.id, take.id] : [take.id]);
}

// Adds a take to those that are compared.
function beside(take) {
  show([...store.view.takes, take.id]);
}

class Card {
  constructor() {
    this.poster = h("img", { class: "card-poster", alt: "", loading: "lazy" });
    this.poster.addEventListener("error", () => (this.poster.style.visibility = "hidden"));
    this.name = h("span", { class: "card-name" });
    this.facts = h("span", { class: "card-facts" });
    this.stars = h("span", { class: "card-stars", "aria-hidden": "true" });
    this.side = h("span", { class: "card-side" });
    this.face = h(
      "button",
      { type: "button", class: "card-face", onclick: () => look(this.take) },
      this.poster,
      h("span", { class: "card-text" }, this.name, this.facts, this.stars),
      this.side,
    );
    this.add = button("Compare with those on the stage", { icon: "plus", class: "small quiet card-add", onclick: () => beside(this.take) });
    this.element = h("li", { class: "card" }, this.face);
  }

  draw(take, level) {
    this.take = take;
    const at = store.view.takes.indexOf(take.id);
    const { element } = this;
    element.style.setProperty("--level", Math.min(level, MOST_LEVELS));
    element.classList.toggle("is-child", level > 0);
    element.classList.toggle("is-shown", at >= 0);
    element.classList.toggle("is-baseline", take.baseline);
    this.face.setAttribute("aria-pressed", at >= 0);
    const from = Math.min(take.keep, take.segment_ids.length - 1);
    const poster = posterOf(take.segment_ids[from]);
    if (this.poster.getAttribute("src") !== poster) this.poster.src = poster;
    setText(this.name, seedWords(take));
    setText(this.facts, [take.baseline ? "baseline" : null, take.keep ? `from ${take.keep + 1}` : null, flowOf(take, from), ago(take.created), take.note ? `“${take.note}”` : null].filter(Boolean).join(" · "));
    setText(this.stars, "★".repeat(take.stars));
    const compared = store.view.takes.length > 1;
    setText(this.side, at < 0 ? "" : !compared ? "" : store.view.takes.length === 2 ? "AB"[at] : String(at + 1));
    this.side.dataset.side = at >= 0 && store.view.takes.length === 2 ? "ab"[at] : "";
    const open = at >= 0 && at === store.view.takes.length - 1;
    if (!open) this.more = null;
    else this.more ??= new Actions(this);
    this.more?.draw(take);
    const room = at < 0 && compared && store.view.takes.length < MOST_ON_STAGE;
    arrange(element, [this.face, room ? this.add : null, this.more?.element]);
  }
}

// What can be done with the take that was put on the stage last.
class Actions {
  constructor(card) {
    this.card = card;
    const id = () => card.take.id;
    this.accept = button("Accept", { text: true, class: "small", onclick: () => run("acceptShown", id()) });
    this.stars = h("div", { class: "star-row", role: "group", "aria-label": "Stars" });
    for (let n = 1; n <= 5; n++) {
      this.stars.append(h("button", { type: "button", class: "star", "aria-label": `${n} of 5 stars`, onclick: () => this.rate(n) }, icon("star")));
    }
    this.note = h("textarea", { class: "input card-note", rows: 1, placeholder: "A note", "aria-label": "Note", maxlength: 2000, oninput: () => (this.unsaved = true), onchange: () => this.write() });
    this.element = h(
      "div", { class: "card-more" },
      h("div", { class: "card-row" }, this.accept, this.stars),
      this.note,
      h("div", { class: "card-row" },
        button("Use its recipe", { text: true, class: "small quiet", title: "Fill the recipe with this take's", onclick: () => this.recipe() }),
        button("New session from it", { text: true, class: "small quiet", onclick: () => this.fork() }),
        button("Delete", { icon: "trash", class: "small quiet", onclick: () => this.delete() })),
    );
  }

  draw(take) {
    this.accept.hidden = take.baseline;
    [...this.stars.children].forEach((star, i) => {
      star.classList.toggle("on", i < take.stars);
      star.setAttribute("aria-pressed", i < take.stars);
    });
    if (!this.unsaved && document.activeElement !== this.note && this.note.value !== take.note) this.note.value = take.note;
  }

  get id() {
    return this.card.take.id;
  }

  async rate(n) {
    const stars = this.card.take.stars === n ? 0 : n;
    await attempt(() => put(`/api/takes/${this.id}/stars`, { stars }));
    await refresh();
  }

  async write() {
    const told = await attempt(() => put(`/api/takes/${this.id}/note`, { note: this.note.value }));
    if (told) this.unsaved = false;
    await refresh();
  }

  async recipe() {
    const told = await attempt(() => get(`/api/takes/${this.id}`));
    if (!told) return;
    run("setRecipe", told.recipe, told.seeds);
    const later = told.chapters[1];
    if (later) toast(`From segment ${later.first + 1} on this take has another recipe, which is not in the rail.`);
  }

  async fork() {
    const told = await attempt(() => post(`/api/takes/${this.id}/fork`, { session: null }));
    if (!told) return;
    await openSession(told.session);
    toast(`A new session: ${told.session}`);
  }

  async delete() {
    const { id } = this;
    if ((await attempt(() => remove(`/api/takes/${id}`))) === undefined) return;
    const { name } = store;
    const undo = async () => {
      await attempt(() => post(`/api/takes/${id}/restore`));
      if (store.name !== name) return openSession(name, { takes: [id] });
      await poll();
      await refresh();
      show([id]);
    };
    await refresh();
    toast("The take is in the trash.", { action: { name: "Undo", run: undo } });
  }
}

// The FlowCache settings that the first new segment of a take was made with, like "flow 0.07".
const flowOf = (take, from) => take.chapters.findLast((one) => one.first <= from)?.flowcache;

// "seed 7", or the seeds of the segments that are new in a take.
function seedWords(take) {
  const own = take.seeds.slice(Math.min(take.keep, take.seeds.length - 1));
  return new Set(own).size === 1 ? `seed ${own[0]}` : `seeds ${own.join(", ")}`;
}
