// The session that takes go into: which one is open, the last ones, and a new one.
import { run } from "./commands.js";
import { button, h } from "./dom.js";
import { carryOn } from "./recipe_draft.js";
import { openSession, store } from "./store.js";
import { attempt } from "./toasts.js";

const ALL = "\u0000all"; // no session can be called so
const NONE = "\u0000none";

export class SessionRow {
  constructor() {
    this.select = h("select", { class: "input recipe-session", "aria-label": "Session", onchange: () => this.choose() });
    this.fresh = button("New session", { icon: "plus", class: "quiet", onclick: () => this.begin() });
    this.drawn = "";
  }

  choose() {
    const name = this.select.value;
    this.draw(true);
    if (name === ALL) return run("openHistory");
    if (name !== NONE && name !== store.name) return attempt(() => openSession(name));
  }

  async begin() {
    await carryOn();
    await attempt(() => openSession(null));
  }

  draw(again = false) {
    const names = [...new Set([...(store.name ? [store.name] : []), ...(store.state?.sessions ?? [])])];
    const key = JSON.stringify([store.name, names]);
    if (key === this.drawn && !again) return;
    this.drawn = key;
    const options = names.map((name) => h("option", { value: name }, name));
    if (!store.name) options.unshift(h("option", { value: NONE }, "New session"));
    this.select.replaceChildren(...options, h("option", { value: ALL }, "All…"));
    this.select.value = store.name ?? NONE;
    this.select.title = store.name ?? "The first take makes the session";
    this.fresh.disabled = !store.name;
  }
}
