// The action bar: says exactly what would be made and kept, and about how long it takes.
import { estimate, post } from "./api.js";
import { commands, run } from "./commands.js";
import { arrange, button, h, setText } from "./dom.js";
import { range, roughly } from "./format.js";
import { SkipMap } from "./skipmap.js";
import { poll, set, store, takeOf, together } from "./store.js";
import { toast } from "./toasts.js";
import { wholeTake } from "./whole.js";

const MANY = 4;
const WAIT_MS = 150;

const draw32 = () => crypto.getRandomValues(new Uint32Array(1))[0];

export class ActionBar {
  constructor() {
    this.go = this.go.bind(this);
    this.hint = h("span", { class: "muted bar-hint" }, "Click the first segment that should change, or press its number.");
    this.main = h("button", { type: "button", class: "btn retake bar-main", onclick: this.go }, "Retake");
    this.seed = h("input", {
      class: "input seed bar-seed", inputmode: "numeric", autocomplete: "off", spellcheck: "false",
      "aria-label": "Seed of the new segments", value: String(draw32()),
      oninput: () => this.look(),
    });
    this.dice = button("Draw another seed", { icon: "dice", onclick: () => this.draw_seed() });
    this.many = button(`${MANY} seeds`, {
      text: true, "aria-pressed": "false", title: `Make ${MANY} takes, each under a seed of its own`,
      onclick: () => this.toggleMany(),
    });
    this.added = h("input", {
      class: "input number bar-added", type: "number", min: 1, max: 100, "aria-label": "Segments to add",
      value: "1", oninput: () => this.look(),
    });
    this.addedLabel = h("label", { class: "bar-part" }, h("span", { class: "label" }, "Add"), this.added);
    this.seedLabel = h("span", { class: "bar-part" }, h("span", { class: "label", "aria-hidden": "true" }, "Seed"), this.seed, this.dice);
    this.clear = button("Clear the selection", { icon: "close", class: "quiet", onclick: () => set({ selected: null }) });
    this.told = h("span", { class: "bar-told", role: "status" });
    this.skipped = new SkipMap();
    this.element = h("div", { class: "timeline-bar" });
    this.estimate = null;
    this.asked = "";
  }

  draw_seed() {
    this.seed.value = String(draw32());
    this.look();
  }

  toggleMany() {
    const now = this.many.getAttribute("aria-pressed") !== "true";
    this.many.setAttribute("aria-pressed", now);
    this.look();
  }

  get copies() {
    return this.many.getAttribute("aria-pressed") === "true" ? MANY : 1;
  }

  // What the bar is about: {take, keep, segments, extends}, or nothing.
  subject() {
    const chosen = store.selected;
    const take = chosen && takeOf(chosen.take);
    if (!take) return null;
    const n = take.segment_ids.length;
    const extending = chosen.index >= n;
    const added = Math.max(1, Math.min(100, Math.round(Number(this.added.value)) || 1));
    return { take, keep: Math.min(chosen.index, n), segments: extending ? n + added : n, extending };
  }

  order() {
    const about = this.subject();
    const text = this.seed.value.trim();
    const changes = { ...run("changes") };
    if (about.extending) changes.segments = about.segments;
    else delete changes.segments;
    const seeds = text === "" ? null : [/^\d+$/.test(text) ? Number(text) : text];
    return { kind: "retake", take: about.take.id, keep: about.keep, changes, seeds, copies: this.copies };
  }

  locked() {
    const about = this.subject();
    return about && about.take.baseline && about.keep < (store.session?.locked ?? 0) && !about.extending;
  }

  draw() {
    const about = this.subject();
    this.main.disabled = !about || this.locked();
    if (!about) {
      setText(this.main, "Retake");
      this.asked = "";
      arrange(this.element, store.session?.takes.length ? [this.main, this.hint] : []);
      return;
    }
    this.look();
    setText(this.main, this.words(about));
    setText(this.told, this.note());
    this.told.classList.toggle("bad", Boolean(this.refused));
    arrange(this.element, [this.main, about.extending ? this.addedLabel : null, this.seedLabel, this.many, this.told, this.clear, this.map(about)]);
  }

  // What FlowCache left out of the chosen segment; nothing if it was off.
  map({ take, keep, extending }) {
    const map = extending ? null : wholeTake(take.id).take?.flowcache[keep];
    if (!map) return null;
    const chapter = take.chapters.findLast((one) => one.first <= keep);
    this.skipped.draw(map, keep + 1, chapter?.flowcache ?? "");
    return this.skipped.element;
  }

  words(about) {
    const { keep, extending } = about;
    // Where a voice says how long it gets, only the studio knows.
    const segments = this.estimate?.segments ?? about.segments;
    const what = extending ? `Add ${range(keep, segments)}` : `Retake ${range(keep, segments)}`;
    const kept = keep ? `, keep ${range(0, keep)}` : "";
    const time = this.estimate?.seconds;
    const many = this.copies > 1 ? `, ${this.copies} seeds` : "";
    if (this.estimate?.new === 0) return `${what}${kept}: made before, comes back at once`;
    return `${what}${kept}${many}${time ? `, ${roughly(time)}` : ""}`;
  }

  note() {
    if (this.locked()) return `Segments 1–${store.session.locked} are locked. Unlock them to change them.`;
    if (this.refused) return this.refused;
    const names = (run("changedFields") ?? []).filter((name) => name !== "segments");
    return names.length ? `With what was changed in the recipe: ${names.join(", ").replaceAll("_", " ")}.` : "";
  }

  // Asks what the order would come to, a moment after the last change.
  look() {
    const about = this.subject();
    if (!about) return;
    const asked = JSON.stringify([this.order(), store.session?.takes_rev]);
    if (asked === this.asked) return;
    this.asked = asked;
    this.estimate = null;
    this.refused = null;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      if (!this.subject()) return;
      const answer = await estimate(this.order()).then(
        (found) => ({ estimate: found }),
        (error) => ({ refused: error.message }),
      );
      if (this.asked !== asked) return;
      this.estimate = answer.estimate ?? null;
      this.refused = answer.refused ?? null;
      this.draw();
    }, WAIT_MS);
  }

  async go() {
    const about = this.subject();
    if (!about) return toast("Choose the first segment that should change.");
    if (this.locked()) return toast(this.note(), { bad: true });
    if (this.busy) return;
    this.busy = true;
    try {
      // What was changed in the recipe is known only when that of the take is.
      await run("changesReady");
      const told = await post("/api/orders", this.order());
      together(told.jobs);
      set({ selected: null });
      this.seed.value = String(draw32());
      await poll();
    } catch (error) {
      toast(error.message, { bad: true });
    } finally {
      this.busy = false;
    }
  }
}
