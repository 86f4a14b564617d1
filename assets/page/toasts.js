// Short messages at the edge of the page, with at most one thing to do about them.
import { button, h } from "./dom.js";

const SECONDS = 8;
// It is there before its first message, else screen readers may miss that.
const box = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
document.body.append(box);

// `action` is {name, run}: for instance an undo.
export function toast(text, { bad = false, action = null, seconds = SECONDS } = {}) {
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
  if (seconds) setTimeout(leave, 1000 * (bad ? seconds * 2 : seconds));

  // It stays while somebody is at it.
  function leave() {
    if (item.matches(":hover, :focus-within")) setTimeout(leave, 1000);
    else close();
  }
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
