// The main button: what it would make, what that costs, and the order itself.
import { estimate, post } from "./api.js";
import { h, setText } from "./dom.js";
import { roughly } from "./format.js";
import { checked } from "./recipe_check.js";
import { carryTo, draft, edit, isHome, seedText, valueOf } from "./recipe_draft.js";
import { fieldOf, modelOf } from "./recipe_facts.js";
import { changed, openSession, poll, store, together } from "./store.js";
import { toast } from "./toasts.js";

const WAIT_MS = 300;
const TWICE_MS = 500;
const COPIES = [1, 2, 4];
export const labelOf = (field) => (field === "seeds" ? "Seed" : (fieldOf(field)?.label ?? field));

export class OrderPart {
  // `point(field)` brings a field to where it can be mended.
  constructor(point) {
    this.point = point;
    this.estimate = null; // what the studio said last of the order `of`
    this.refused = null; // {field, fix, value}, if it was refused
    this.of = "";
    this.asked = "";
    this.line = Promise.resolve();
    this.fresh = null; // {name}: the new session that orders of this page are about to make
    this.main = h("button", { type: "button", class: "btn primary recipe-main", "aria-describedby": "recipe-estimate", onclick: () => this.go() });
    this.told = h("span", { id: "recipe-estimate", class: "recipe-estimate" });
    this.copies = COPIES.map((count) =>
      h("input", {
        type: "radio", name: "recipe-copies", value: String(count), class: "visually-hidden",
        "aria-label": count === 1 ? "One take" : `${count} takes, each under a seed of its own`,
        onchange: () => edit({ copies: count }),
      }),
    );
    const faces = this.copies.map((input, i) => h("label", { class: "recipe-copy", title: input.getAttribute("aria-label") }, input, h("span", { "aria-hidden": "true" }, COPIES[i])));
    const takes = h("div", { class: "recipe-copies", role: "radiogroup", "aria-label": "Takes at once" }, h("span", { class: "label", "aria-hidden": "true" }, "Takes"), ...faces);
    this.element = h("div", { class: "recipe-order" }, takes, this.main, this.told);
  }

  body() {
    const { model, recipe, seeds } = checked();
    return { kind: "generate", model, recipe, seeds, session: store.name, copies: draft.copies };
  }

  // All that is wrong: what the page sees, and what the studio said, until the field is changed.
  faults() {
    const { faults } = checked();
    const { field, fix, value } = this.refused ?? {};
    if (field && !faults[field] && value === written(field)) faults[field] = fix;
    return faults;
  }

  draw(faults) {
    if (store.name !== null) this.fresh = null;
    const model = modelOf(draft.model);
    // How many segments a voice needs is the studio's to say.
    const count = Number(model?.takes_audio ? this.current()?.segments : valueOf("segments"));
    const right = Number.isInteger(count) && count > 0;
    const segments = model?.single_frame ? "picture" : right ? `${count} segment${count === 1 ? "" : "s"}` : "";
    const many = draft.copies > 1 ? `${draft.copies} takes` : "";
    const what = model?.single_frame
      ? draft.copies > 1 ? `${draft.copies} pictures` : "a picture"
      : [many, segments].filter(Boolean).join(" of ");
    setText(this.main, `Generate ${what}`.trim());
    this.copies.forEach((input) => (input.checked = Number(input.value) === draft.copies));
    const wrong = Object.keys(faults);
    this.main.classList.toggle("held", wrong.length > 0);
    setText(this.told, wrong.length ? `To be put right first: ${wrong.map(labelOf).join(", ")}.` : this.words());
    this.look();
  }

  // What the studio said of the draft as it is now.
  current() {
    return this.of === JSON.stringify(this.body()) ? this.estimate : null;
  }

  words() {
    const one = this.current();
    const wait = store.state?.jobs.length ? "adds to the queue" : "";
    const parts = [];
    if (one && one.new === 0 && one.copies === 1) parts.push("already made: comes back at once");
    else {
      if (one && modelOf(draft.model)?.takes_audio) parts.push(`${one.width} × ${one.height}, ${one.frames} frames`);
      if (one?.seconds) parts.push(roughly(one.seconds));
      if (one?.reused) parts.push(`${one.reused} of ${one.segments} segments are there already`);
      if (wait) parts.push(wait);
    }
    const text = parts.join(" · ");
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  // Asks what the order would come to, a moment after the last change.
  look() {
    const body = this.body();
    const asked = JSON.stringify([body, store.session?.takes_rev, store.state?.jobs.length, store.away]);
    if (asked === this.asked) return;
    this.asked = asked;
    clearTimeout(this.timer);
    if (!store.away && !Object.keys(checked().faults).length) this.timer = setTimeout(() => this.ask(body, asked), WAIT_MS);
  }

  async ask(body, asked) {
    const answer = await estimate(body).then(
      (found) => ({ estimate: found, refused: null }),
      (error) => ({ estimate: null, refused: refusal(error) }),
    );
    if (asked === this.asked) this.hear(body, answer);
  }

  hear(body, answer) {
    Object.assign(this, answer, { of: JSON.stringify(body) });
    changed();
  }

  // Orders go out one after another, each as the rail stood when it was asked for: the first of a
  // new session says what the session is called.
  async go() {
    const body = this.body();
    const heard = this.of === JSON.stringify(body);
    const first = Object.keys(heard ? this.faults() : checked().faults)[0];
    if (first) return this.point(first);
    if (this.isTwice(body)) return;
    const once = draft.locked ? "" : draft.seed.trim();
    const fresh = body.session === null ? (this.fresh ??= { name: null }) : null;
    this.line = this.line.then(() => this.order(body, once, fresh)).catch((error) => {
      const stays = store.name === (body.session ?? fresh.name);
      const refused = stays ? refusal(error) : null;
      if (!refused) return toast(error.message, { bad: true });
      this.hear(body, { estimate: null, refused });
      this.point(refused.field);
    });
    await this.line;
  }

  // A double click, or a key that is held.
  isTwice(body) {
    const now = { text: JSON.stringify({ ...body, session: null }), at: Date.now() };
    const before = this.before;
    this.before = now;
    return before?.text === now.text && now.at - before.at < TWICE_MS;
  }

  // `once` is a seed of the dice: the next take gets another one. `fresh` is shared by the orders
  // that go into one new session. If another session was opened meanwhile, that one is left alone.
  async order(body, once, fresh) {
    const told = await post("/api/orders", { ...body, session: body.session ?? fresh.name });
    if (fresh) fresh.name = told.session;
    const isNew = () => store.name === null && fresh !== null && this.fresh === fresh;
    const stays = () => isHome() && (store.name === told.session || isNew());
    if (stays()) {
      if (once && !draft.locked && draft.seed.trim() === once) edit({ seed: "", last: once });
      together(told.jobs);
    }
    if (isNew() && isHome()) {
      await carryTo(told.session);
      if (isNew()) await openSession(told.session);
    } else await poll();
    if (!stays()) return;
    const job = [...(store.state?.jobs ?? []), ...(store.state?.ended ?? [])].find((one) => one.id === told.jobs[0]);
    const last = job ? seedText(job.seeds) : draft.last;
    if (last !== draft.last) edit({ last });
  }
}

const written = (field) => (field === "seeds" ? draft.seed : JSON.stringify(valueOf(field)));

// {field, fix, value} if a field of the rail was refused; null for anything else.
function refusal(error) {
  const known = error.status === 422 && (error.field === "seeds" || fieldOf(error.field));
  return known ? { field: error.field, fix: error.fix ?? error.message, value: written(error.field) } : null;
}
