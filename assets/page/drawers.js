// What opens over the page from the right: history, models, keys. One at a time, in a dialog of the
// browser: Escape closes it, the focus stays inside and goes back to where it was.
import { commands } from "./commands.js";
import { button, h, setText } from "./dom.js";
import { mountDrop, openFile } from "./drop.js";
import { history } from "./history.js";
import { keySheet } from "./keysheet.js";
import { models } from "./models.js";

// What a drawer is: {name, title, build(frame) -> {element, tools?, focus?, closed?}}. `frame` has
// close() and `live`, which is false once the drawer is gone.
export function mount(element) {
  const drawer = new Drawer();
  element.replaceChildren(drawer.element);
  mountDrop(element);
  Object.assign(commands, {
    openHistory: () => drawer.open(history),
    openModels: () => drawer.open(models),
    openKeys: () => drawer.open(keySheet),
    openDrawer: (one) => drawer.open(one),
    openFile: (file) => openFile(file).then((opened) => opened && drawer.close()),
  });
}

class Drawer {
  constructor() {
    this.shown = null;
    this.title = h("h2", { class: "drawers-title", id: "drawers-title", tabindex: "-1" });
    this.tools = h("div", { class: "drawers-tools" });
    this.body = h("div", { class: "drawers-body" });
    const close = button("Close", { icon: "close", class: "quiet", onclick: () => this.close() });
    this.element = h(
      "dialog",
      {
        class: "drawers-dialog", "aria-labelledby": "drawers-title",
        onclick: (event) => event.target === this.element && this.close(),
        onclose: () => this.closed(),
      },
      h("div", { class: "drawers-frame" }, h("header", { class: "drawers-head" }, this.title, this.tools, close), this.body),
    );
  }

  open(drawer) {
    if (this.shown?.drawer === drawer && this.element.open) return;
    this.leave();
    const frame = { live: true, close: () => this.close() };
    const built = drawer.build(frame);
    this.shown = { drawer, frame, ...built };
    this.element.dataset.drawer = drawer.name;
    setText(this.title, drawer.title);
    this.tools.replaceChildren(...(built.tools ?? []));
    this.body.replaceChildren(built.element);
    if (!this.element.open) this.element.showModal();
    // On a phone a focused field would bring the keyboard up over what was opened.
    const first = matchMedia("(pointer: fine)").matches ? built.focus : null;
    (first ?? this.title).focus();
  }

  close() {
    if (this.element.open) this.element.close();
  }

  // Also after Escape.
  closed() {
    this.leave();
    const toasts = this.element.querySelector(".toasts");
    if (toasts) (document.querySelector("#studio") ?? document.body).append(toasts);
    this.body.replaceChildren();
    this.tools.replaceChildren();
  }

  leave() {
    if (!this.shown) return;
    this.shown.frame.live = false;
    this.shown.closed?.();
    this.shown = null;
  }
}
