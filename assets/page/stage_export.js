// Saves what is on the stage as a file: one take, or all that are shown, side by side.
import { part } from "./api.js";
import { arrange, button, h, setText } from "./dom.js";
import { toast } from "./toasts.js";

const VIDEO = [
  ["mp4", "MP4 video"],
  ["webm", "WebM video"],
  ["gif", "GIF, without sound"],
];
const IMAGE = [["png", "PNG image"]];
const SCALES = [1, 2, 4];
const LARGE = 1024; // pixels of a side that need not be more

export class ExportMenu {
  // `shown()` gives [{name, take}], what is on the stage.
  constructor(shown) {
    this.shown = shown;
    this.busy = false;
    this.what = h("select", { class: "input", onchange: () => this.draw() });
    this.scale = h("select", { class: "input" });
    this.list = h("div", { class: "stage-formats", role: "menu", "aria-label": "Save as" });
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.menu = h(
      "div",
      { class: "stage-menu", hidden: true },
      labelled("What", this.what),
      labelled("Size", this.scale),
      this.list,
    );
    this.opener = button("Export", {
      icon: "download", text: true, class: "stage-export", "aria-expanded": "false", onclick: () => this.toggle(),
    });
    this.element = h("div", { class: "stage-export-place" }, this.opener, this.menu);
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.menu.hidden) return;
      event.preventDefault();
      this.close();
      this.opener.focus();
    });
    document.addEventListener("pointerdown", (event) => !this.element.contains(event.target) && this.close());
  }

  toggle() {
    if (!this.menu.hidden) return this.close();
    this.choices = this.shown();
    const n = this.choices.length;
    const several = n > 1 && !this.choices.some(({ take }) => take.result.endsWith(".png"));
    const all = several ? [["all", n === 2 ? "Both, side by side" : `All ${n}, side by side`]] : [];
    options(this.what, [...all, ...this.choices.map(({ name, take }) => [take.id, name])]);
    this.what.parentElement.hidden = n < 2;
    this.draw();
    this.menu.hidden = false;
    this.opener.setAttribute("aria-expanded", "true");
    return this.list.firstChild.focus();
  }

  close() {
    this.menu.hidden = true;
    this.opener.setAttribute("aria-expanded", "false");
  }

  get takes() {
    const chosen = this.choices.filter(({ take }) => this.what.value === "all" || this.what.value === take.id);
    return chosen.map(({ take }) => take);
  }

  draw() {
    const { width, height, result } = this.takes[0];
    const image = result.endsWith(".png");
    const fit = SCALES.filter((scale) => scale === 1 || (!image && scale * Math.max(width, height) <= LARGE));
    const sizes = fit.map((scale) => (scale === 1 ? `As it is, ${width} × ${height}` : `${scale} times larger`));
    options(this.scale, fit.map((scale, i) => [String(scale), sizes[i]]));
    this.scale.parentElement.hidden = fit.length < 2;
    const items = (image ? IMAGE : VIDEO).map(([format, name]) => {
      const item = button(name, {
        icon: "download", text: true, class: "quiet stage-format", role: "menuitem", tabindex: "-1",
      });
      item.onclick = () => this.save(item, format, name);
      return item;
    });
    items[0].tabIndex = 0;
    arrange(this.list, items);
  }

  move(event) {
    const items = [...this.list.children];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    items.at(to % items.length).focus();
  }

  async save(item, format, name) {
    if (this.busy) return;
    const takes = this.takes.map((take) => take.id).join(",");
    this.busy = true;
    setText(item.lastChild, "Preparing…");
    this.menu.setAttribute("aria-busy", "true");
    try {
      await download(`/api/export?takes=${part(takes)}&format=${format}&scale=${this.scale.value}`);
      this.close();
      this.opener.focus();
    } catch (error) {
      toast(error.message, { bad: true });
    } finally {
      this.busy = false;
      setText(item.lastChild, name);
      this.menu.removeAttribute("aria-busy");
    }
  }
}

async function download(path) {
  const answer = await fetch(path).catch(() => {
    throw new Error("The studio does not answer. Try again when it does.");
  });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Error(told.error ?? told.detail ?? `The export failed (${answer.status}).`);
  }
  const address = URL.createObjectURL(await answer.blob());
  const link = h("a", { href: address, download: nameIn(answer.headers.get("content-disposition") ?? "") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function nameIn(told) {
  const coded = /filename\*=utf-8''([^;]+)/i.exec(told)?.[1];
  return coded ? decodeURIComponent(coded) : (/filename="([^"]+)"/.exec(told)?.[1] ?? "take");
}

function options(select, choices) {
  const kept = select.value;
  select.replaceChildren(...choices.map(([value, text]) => h("option", { value }, text)));
  if (choices.some(([value]) => value === kept)) select.value = kept;
}

function labelled(text, field) {
  return h("label", { class: "stage-menu-part" }, h("span", { class: "label" }, text), field);
}
