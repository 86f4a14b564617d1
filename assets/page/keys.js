// The keys of the page. In a text field they write; in a dialog they belong to the dialog.
import { run } from "./commands.js";
import { set } from "./store.js";

const KEPT = "retake.plain-keys";

// Whether a key by itself does something: a hand on the keyboard, or speech, can press one unmeant.
export const plainKeys = () => localStorage.getItem(KEPT) !== "off";
export const setPlainKeys = (on) => localStorage.setItem(KEPT, on ? "on" : "off");

const PLAIN = {
  " ": () => run("toggle"),
  ",": () => run("frame", -1),
  ".": () => run("frame", 1),
  ArrowLeft: () => run("move", -1),
  ArrowRight: () => run("move", 1),
  Home: () => run("select", 0),
  End: () => run("select", (run("length") ?? 1) - 1),
  r: () => run("retake"),
  g: () => run("generate"),
  a: () => run("side", "a"),
  b: () => run("side", "b"),
  "*": () => run("starShown"),
  "?": () => run("openKeys"),
  Escape: () => set({ selected: null }),
};

// Where a key has a meaning of its own.
const WRITES = "input:not([type=range], [type=checkbox], [type=radio]), textarea, select, [contenteditable=true]";
const OWN_ARROWS = "input, [role=slider], [role=radiogroup] *, [role=menu] *, video";

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  const at = event.target instanceof Element ? event.target : document.body;
  const command = event.ctrlKey || event.metaKey;
  const inDialog = at.closest("dialog") || document.querySelector("dialog:modal");
  if (command && event.key === "Enter" && !inDialog) {
    event.preventDefault();
    run("generate");
    return;
  }
  if (inDialog || at.closest(WRITES)) return;
  if (command && event.key.toLowerCase() === "z" && !event.shiftKey) {
    event.preventDefault();
    run("undo");
    return;
  }
  if (command || event.altKey || !plainKeys()) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^[1-9]$/.test(key)) {
    if (Number(key) <= (run("length") ?? 0)) run("select", Number(key) - 1);
    return;
  }
  if (/^(Arrow|Home|End)/.test(key) && at.closest(OWN_ARROWS)) return;
  // Space presses the button that has the focus; on a tile it plays.
  if (key === " " && at.closest("button, a, summary, [role=button], input") && !at.closest(".tile-face")) return;
  const act = PLAIN[key];
  if (!act || (event.repeat && !/^(Arrow|,|\.)/.test(key))) return;
  event.preventDefault();
  act();
});
