// Short messages at the edge of the page, with at most one thing to do about them.
import { button, h } from "./dom.js";

const SECONDS = 8;
let box = null;

// `action` is {name, run}: for instance an undo.
export function toast(text, { bad = false, action = null, seconds = SECONDS } = {}) {
  box ??= h("div", { class: "toasts", role: "status", "aria-live": "polite" });
  // What is outside of an open dialog is out of reach.
  const home = document.querySelector("dialog[open]") ?? document.querySelector("#studio") ?? document.body;
  if (box.parentElement !== home) home.append(box);
  const close = () => item.remove();
  const item = h(
    "div",
    { class: `toast ${bad ? "bad" : ""}`, "data-testid": "toast" },
    h("span", {}, text),
    action && button(action.name, { class: "small", onclick: () => (close(), action.run()) }),
    button("Dismiss", { icon: "close", class: "small quiet", onclick: close }),
  );
  // The same thing told twice is told once.
  for (const old of box.children) if (old.firstChild.textContent === text) old.remove();
  box.append(item);
  if (seconds) setTimeout(close, 1000 * (bad ? seconds * 2 : seconds));
}

// Runs something that may be refused, and tells why if it is. Gives its value, or undefined.
export async function attempt(run) {
  try {
    return await run();
  } catch (error) {
    toast(error.message, { bad: true });
    return undefined;
  }
}
