// An endless list: pages come when the end draws near, and pages far out of sight are empty boxes of
// their height, so that the document stays small however far one scrolls.
import { h } from "./dom.js";

const NEAR = "1200px 0px";

// `read(after)` -> {items, next}; `card(item)` -> {element, face}.
export class EndlessList {
  constructor({ scroller, label, read, card }) {
    Object.assign(this, { read, card });
    this.element = h("div", { class: "history-list", role: "list", "aria-label": label });
    this.end = h("div", { class: "history-end", "aria-hidden": "true" });
    this.pages = [];
    this.next = null;
    this.turn = 0;
    this.near = new IntersectionObserver((entries) => entries.forEach((entry) => this.seen(entry)), { root: scroller, rootMargin: NEAR });
    this.near.observe(this.end);
  }

  stop() {
    this.turn += 1;
    this.near.disconnect();
  }

  // Begins anew with what `read` gives now; the old list stays until the new one is there.
  async restart() {
    const turn = (this.turn += 1);
    this.reading = false;
    const told = await this.read(null);
    if (turn !== this.turn) return null;
    for (const page of this.pages) this.near.unobserve(page.element);
    this.pages = [];
    this.element.replaceChildren();
    this.take(told);
    return told;
  }

  take({ items, next }) {
    this.next = next;
    if (items.length) {
      const page = { items, cards: new Map(), element: h("div", { class: "history-page", role: "presentation" }) };
      page.element.page = page;
      this.pages.push(page);
      this.fill(page);
      this.element.append(page.element);
      this.near.observe(page.element);
    }
    // The end may still be in sight: then more is needed, but no change of sight would tell.
    this.near.unobserve(this.end);
    if (next) this.near.observe(this.end);
  }

  async more() {
    if (!this.next || this.reading) return;
    const { turn } = this;
    this.reading = true;
    try {
      const told = await this.read(this.next);
      if (turn === this.turn) this.take(told);
    } finally {
      if (turn === this.turn) this.reading = false;
    }
  }

  seen({ target, isIntersecting }) {
    if (target === this.end) {
      if (isIntersecting) this.more();
    } else if (isIntersecting) this.fill(target.page);
    else this.empty(target.page);
  }

  fill(page) {
    if (page.cards.size) return;
    for (const item of page.items) page.cards.set(item, this.card(item));
    page.element.replaceChildren(...[...page.cards.values()].map((card) => card.element));
    page.element.style.height = "";
  }

  empty(page) {
    if (!page.cards.size || page.element.contains(document.activeElement)) return;
    page.element.style.height = `${page.element.offsetHeight}px`;
    page.cards.clear();
    page.element.replaceChildren();
  }

  // Takes an item out, gives the focus to its neighbour, and returns how to put it back.
  remove(item) {
    const page = this.pages.find((one) => one.items.includes(item));
    if (!page) return () => {};
    const at = page.items.indexOf(item);
    const faces = [...this.element.querySelectorAll(".history-face")];
    const card = page.cards.get(item);
    const place = faces.indexOf(card?.face);
    page.items.splice(at, 1);
    this.refill(page);
    const rest = [...this.element.querySelectorAll(".history-face")];
    rest[Math.min(place, rest.length - 1)]?.focus();
    const { turn } = this;
    return () => {
      if (turn !== this.turn) return;
      page.items.splice(Math.min(at, page.items.length), 0, item);
      this.refill(page);
      page.cards.get(item)?.face.focus();
    };
  }

  refill(page) {
    page.cards.clear();
    this.fill(page);
    page.element.hidden = !page.items.length;
  }
}
