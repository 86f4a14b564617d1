// The seed: locked, the same one serves again; unlocked, an empty field has a new one drawn each time.
import { button, h, icon, setText } from "./dom.js";
import { draft, edit } from "./recipe_draft.js";
import { framed } from "./recipe_fields.js";

const draw32 = () => String(crypto.getRandomValues(new Uint32Array(1))[0]);

export class SeedField {
  constructor() {
    this.name = "seeds";
    // What is written by hand is meant to stay.
    this.control = h("input", {
      type: "text", inputmode: "numeric", class: "seed", autocomplete: "off", spellcheck: "false",
      oninput: () => edit({ seed: this.control.value, locked: this.control.value.trim() !== "" }),
    });
    this.dice = button("Draw a seed now", { icon: "dice", onclick: () => edit({ seed: draw32() }) });
    this.lock = h("button", { type: "button", class: "btn icon", "aria-label": "Keep the seed", onclick: () => this.toggle() });
    this.frame = framed("seeds", "Seed", this.control, { extra: [this.dice, this.lock] });
    this.element = this.frame.element;
    this.last = h("bdi", { class: "seed" });
    this.again = button("Use it again", {
      class: "small quiet recipe-again", onclick: () => edit({ seed: draft.last, locked: true }),
    });
    this.words = h("span", {});
    this.frame.hintLine.append(this.words, this.last, this.again);
  }

  // Locking an empty field keeps the seed that was drawn last, or draws one.
  toggle() {
    if (draft.locked) edit({ locked: false, seed: "", last: draft.seed.trim() || draft.last });
    else edit({ locked: true, seed: draft.seed.trim() || draft.last || draw32() });
  }

  draw(fault) {
    if (this.control.value !== draft.seed) this.control.value = draft.seed;
    this.control.setAttribute("placeholder", "a new one each time");
    this.lock.setAttribute("aria-pressed", String(draft.locked));
    this.lock.title = draft.locked ? "Kept: the same seed again. Click for a new one each time." : "Keep the seed";
    const picture = draft.locked ? "lock" : "unlock";
    if (this.picture !== picture) {
      this.picture = picture;
      this.lock.replaceChildren(icon(picture));
    }
    const once = !draft.locked && draft.seed.trim() !== "";
    const last = !draft.locked && !once && draft.last !== "";
    setText(this.words, this.told(once, last));
    setText(this.last, last ? draft.last : "");
    this.again.hidden = !last;
    this.frame.draw(fault);
  }

  told(once, last) {
    if ((draft.locked || once) && draft.copies > 1) return "For the first take; the others get new ones.";
    if (draft.locked) return "Kept: the same seed each time.";
    if (once) return "For the next take; then a new one each time.";
    return last ? "Last: " : "Drawn anew for each take.";
  }
}
