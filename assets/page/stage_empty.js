// What an empty stage says, over a picture made of boxes: three frames of a film, one to be redone.
import { h } from "./dom.js";

export function emptyPicture() {
  const frame = (kind) => h("i", { class: `stage-still ${kind}` });
  return h(
    "div",
    { class: "stage-empty" },
    h("div", { class: "stage-film", "aria-hidden": "true" }, frame("first"), frame("second"), frame("third")),
    h("p", { class: "stage-empty-head" }, "Nothing here yet"),
    h("p", { class: "muted" }, "Write a prompt, or press a sample, and then the green button."),
  );
}
