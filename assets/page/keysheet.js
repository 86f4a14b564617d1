// The sheet of keys, and the table it is made of.
import { h } from "./dom.js";
import { plainKeys, setPlainKeys } from "./keys.js";

export const KEYS = [
  { group: "Playing", keys: ["Space"], does: "Play or pause" },
  { group: "Playing", keys: [",", "."], does: "One frame back, one frame on" },
  { group: "Playing", keys: ["A", "B"], does: "Show side A, side B" },
  { group: "Timeline", keys: ["←", "→"], does: "The segment before, the segment after" },
  { group: "Timeline", keys: ["Home", "End"], does: "The first segment, the last segment" },
  { group: "Timeline", keys: ["1", "…", "9"], does: "The segment with that number" },
  { group: "Making", keys: ["R"], does: "Retake from the chosen segment" },
  { group: "Making", keys: ["G"], does: "Generate a new take" },
  { group: "Making", keys: ["Ctrl", "Enter"], together: true, does: "Generate, from inside a text field too" },
  { group: "Takes", keys: ["*"], does: "Give the shown take five stars, or take them back" },
  { group: "Takes", keys: ["Ctrl", "Z"], together: true, does: "Undo the last accept" },
  { group: "Page", keys: ["Esc"], does: "Close what is open; choose nothing" },
  { group: "Page", keys: ["?"], does: "This sheet" },
];

const groups = [...new Set(KEYS.map((row) => row.group))];

export const keySheet = {
  name: "keys",
  title: "Keys",
  build: () => ({
    element: h(
      "div", { class: "keys-sheet" },
      h("p", { class: "hint" }, "In a text field the keys write. On a Mac, ⌘ does what Ctrl does."),
      h(
        "label", { class: "hint keys-plain" },
        h("input", { type: "checkbox", checked: plainKeys(), onchange: (event) => setPlainKeys(event.target.checked) }),
        " Keys without Ctrl work",
      ),
      groups.map((group) => h(
        "section", {},
        h("h3", { class: "keys-group" }, group),
        h("dl", { class: "keys-list" }, KEYS.filter((row) => row.group === group).map(line)),
      )),
    ),
  }),
};

function line({ keys, does, together }) {
  const caps = keys.flatMap((key, i) => [
    i && together ? h("span", { class: "muted" }, "+") : null,
    key === "…" ? h("span", { class: "muted" }, "to") : h("kbd", {}, key),
  ]);
  return h("div", { class: "keys-line" }, h("dt", {}, caps), h("dd", {}, does));
}
