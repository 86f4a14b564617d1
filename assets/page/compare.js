// How two takes are looked at: side by side, with a wipe, or as their difference.
import { h, setText } from "./dom.js";

// Name, label, and the label where there is little room.
const LOOKS = [
  ["side", "Side by side", "Side"],
  ["wipe", "Wipe", "Wipe"],
  ["difference", "Difference", "Diff"],
];
const STEP = 2;
const LEAP = 10;
const KEY = "retake.look";

export class Looks {
  constructor(changed) {
    this.changed = changed;
    const kept = localStorage.getItem(KEY);
    this.look = LOOKS.some(([name]) => name === kept) ? kept : "side";
    this.buttons = LOOKS.map(([name, label, short]) =>
      h(
        "button",
        {
          type: "button", class: "stage-look", "aria-label": label, "data-look": name,
          onclick: () => this.choose(name),
        },
        h("span", { class: "stage-wide" }, label),
        h("span", { class: "stage-narrow" }, short),
      ),
    );
    this.gain = h("input", {
      type: "range", class: "stage-range stage-gain", min: 1, max: 16, step: 0.5, value: "4",
      "aria-label": "Gain of the difference", oninput: () => this.changed(),
    });
    this.gainText = h("span", { class: "number stage-gain-text" });
    this.gainPart = h("span", { class: "stage-gain-part" }, this.gain, this.gainText);
    this.element = h(
      "div",
      { class: "stage-looks" },
      h("div", { class: "stage-segmented", role: "group", "aria-label": "Look" }, this.buttons),
      this.gainPart,
    );
    this.divider = this.makeDivider();
    this.wipe = 50;
  }

  makeDivider() {
    const grip = h("span", { class: "stage-grip" });
    const line = h(
      "div",
      {
        class: "stage-divider", role: "slider", tabindex: "0", "aria-label": "Wipe between A and B",
        "aria-orientation": "horizontal", "aria-valuemin": "0", "aria-valuemax": "100",
        onkeydown: (event) => this.key(event),
        onpointerdown: (event) => this.grab(event),
        onpointermove: (event) => this.drag(event),
        onclick: (event) => event.stopPropagation(),
      },
      grip,
    );
    this.line = line;
    return h("div", { class: "stage-frame stage-over" }, h("div", { class: "stage-picture" }, line));
  }

  choose(look) {
    this.look = look;
    localStorage.setItem(KEY, look);
    this.changed();
  }

  key(event) {
    const back = { ArrowLeft: STEP, ArrowDown: STEP, PageDown: LEAP }[event.key] ?? 0;
    const forth = { ArrowRight: STEP, ArrowUp: STEP, PageUp: LEAP }[event.key] ?? 0;
    const to = { Home: 0, End: 100 }[event.key] ?? (back || forth ? this.wipe + forth - back : null);
    if (to === null) return;
    event.preventDefault();
    this.move(to);
  }

  grab(event) {
    event.preventDefault();
    this.line.setPointerCapture(event.pointerId);
    this.line.focus();
  }

  drag(event) {
    if (!this.line.hasPointerCapture(event.pointerId)) return;
    const place = this.line.parentElement.getBoundingClientRect();
    this.move((100 * (event.clientX - place.left)) / place.width);
  }

  move(to) {
    this.wipe = Math.max(0, Math.min(100, to));
    this.changed();
  }

  // `screen` holds the cells; `both`: both are shown.
  draw(screen, both, ratio) {
    const look = both ? this.look : "side";
    screen.dataset.look = look;
    screen.style.setProperty("--wipe", `${this.wipe}%`);
    screen.style.setProperty("--gain", this.gain.value);
    this.divider.firstChild.style.setProperty("--ratio", ratio);
    this.divider.hidden = look !== "wipe";
    const part = Math.round(this.wipe);
    this.line.setAttribute("aria-valuenow", part);
    this.line.setAttribute("aria-valuetext", `A ${part} %, B ${100 - part} %`);
    this.gainPart.hidden = look !== "difference";
    setText(this.gainText, `×${this.gain.value}`);
    this.gain.setAttribute("aria-valuetext", `${this.gain.value} times`);
    for (const button of this.buttons) button.setAttribute("aria-pressed", button.dataset.look === this.look);
  }
}
