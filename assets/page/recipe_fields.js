// The fields of the rail: each with its label, hint, limits, what is wrong with it, and the way back
// to the model's default. A field that is being written in is left alone.
import { h, setText } from "./dom.js";
import { limits, parsed, secondsOf } from "./recipe_check.js";
import { draft, setField, valueOf } from "./recipe_draft.js";
import { defaultOf, modelOf } from "./recipe_facts.js";

const NO_DEFAULT = ["model", "prompt"];

// What is drawn around every control: `element`, and draw(fault) to call after each change.
export function framed(name, label, control, { hint = "", inline = false, extra = [], reset = null } = {}) {
  const ids = { control: `recipe-${name}`, hint: `recipe-${name}-hint`, fault: `recipe-${name}-fault` };
  control.id = ids.control;
  const words = h("label", { class: "label", for: ids.control, id: `${ids.control}-label` }, label);
  reset?.element.setAttribute("aria-describedby", words.id);
  const head = h("div", { class: "recipe-head" }, words, reset?.element);
  const hintLine = h("div", { class: "hint", id: ids.hint }, hint);
  const faultLine = h("div", { class: "recipe-fault", id: ids.fault });
  const row = h("div", { class: "recipe-control" }, control, ...extra);
  const element = h(
    "div",
    { class: `field recipe-field ${inline ? "inline" : ""}`, "data-field": name },
    h("div", { class: "recipe-line" }, head, row),
    faultLine,
    hintLine,
  );
  const draw = (fault) => {
    setText(faultLine, fault ?? "");
    if (fault) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
    control.setAttribute("aria-describedby", fault ? `${ids.fault} ${ids.hint}` : ids.hint);
    reset?.draw();
  };
  return { name, element, control, hintLine, draw };
}

// A dot that is there when the field is not at the model's default, and takes it back.
function backTo(field) {
  const element = h("button", { type: "button", class: "recipe-reset", hidden: true, onclick: () => setField(field.name, null) });
  const draw = () => {
    const model = modelOf(draft.model);
    const standard = defaultOf(field.name, model);
    element.hidden = !model || !(field.name in draft.recipe) || standard === null || standard === "";
    nameReset(element, standard);
  };
  return { element, draw };
}

export function nameReset(element, standard) {
  const words = `Back to the model's default, ${standard}`;
  element.setAttribute("aria-label", words);
  element.title = words;
}

const shown = (value) => (value === null || value === undefined ? "" : String(value));
const has = (control) => document.activeElement === control;

export function textField(field) {
  const control = h("textarea", {
    rows: field.name === "prompt" ? 3 : 2,
    class: "recipe-text",
    dir: "auto",
    autocomplete: "off",
    oninput: () => (setField(field.name, control.value), grow()),
  });
  const reset = NO_DEFAULT.includes(field.name) ? null : backTo(field);
  const frame = framed(field.name, field.label, control, { hint: field.hint, reset });
  const grow = () => {
    if (CSS.supports("field-sizing", "content")) return;
    control.style.height = "auto";
    control.style.height = `${control.scrollHeight + 2}px`;
  };
  const draw = (fault) => {
    // As a text box gives them back.
    const value = shown(valueOf(field.name)).replaceAll("\r\n", "\n").replaceAll("\r", "\n");
    if (control.value !== value) {
      control.value = value;
      grow();
    }
    frame.draw(fault);
  };
  return { ...frame, draw };
}

// A text box, since one of the number kind forgets what it cannot read. Arrow keys step it.
export function numberField(field, { inline = true, extra = [], step = () => field.step } = {}) {
  const control = h("input", {
    type: "text",
    role: "spinbutton",
    inputmode: field.kind === "integer" ? "numeric" : "decimal",
    class: "number",
    autocomplete: "off",
    oninput: () => setField(field.name, parsed(control.value, field)),
    onblur: () => (control.value = shown(valueOf(field.name))),
    onkeydown: (event) => {
      const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      move(by);
    },
  });
  // To the next multiple of the step, within the limits.
  const move = (by) => {
    const now = Number(valueOf(field.name));
    if (!Number.isFinite(now)) return;
    const least = field.min ?? (field.above === null ? -Infinity : step());
    const next = Math.min(field.max ?? Infinity, Math.max(least, now + by * step()));
    setField(field.name, Number(next.toFixed(6)));
    control.value = shown(next);
  };
  const frame = framed(field.name, field.label, control, {
    hint: `${field.hint} ${limits(field)}`,
    inline,
    extra: extra.map((make) => make(move)),
    reset: backTo(field),
  });
  const draw = (fault) => {
    const value = shown(valueOf(field.name));
    // "3." on the way to "3.5" is the same number; an empty field stands for the default.
    const written = parsed(control.value, field);
    const same = written === valueOf(field.name) || (written === null && !(field.name in draft.recipe));
    if (!(has(control) && same)) control.value = value;
    control.setAttribute("placeholder", shown(defaultOf(field.name, modelOf(draft.model))));
    for (const [name, at] of [["aria-valuenow", valueOf(field.name)], ["aria-valuemin", field.min], ["aria-valuemax", field.max]]) {
      if (typeof at === "number") control.setAttribute(name, at);
      else control.removeAttribute(name);
    }
    frame.draw(fault);
  };
  return { ...frame, draw, move };
}

// Says as well how long the video gets.
export function segmentsField(field) {
  const stepper = (name, sign, by) => (move) =>
    h("button", { type: "button", class: "btn icon", "aria-label": name, title: name, onclick: () => move(by) }, sign);
  const extra = [stepper("One segment less", "−", -1), stepper("One segment more", "+", 1)];
  const number = numberField(field, { inline: false, extra });
  const length = h("output", { class: "recipe-length number", for: number.control.id });
  number.element.querySelector(".recipe-control").append(length);
  const { control, hintLine } = number;
  const hint = hintLine.textContent;
  const steppers = [...number.element.querySelectorAll(".recipe-control button")];
  // Unless fewer are asked for, a voice decides how many there are.
  const isOpen = () => (modelOf(draft.model)?.takes_audio ?? false) && !(field.name in draft.recipe);
  const leaveOpen = () => {
    if (!isOpen()) return;
    if (!has(control)) control.value = "";
    control.setAttribute("placeholder", "all");
    control.removeAttribute("aria-valuenow");
  };
  control.addEventListener("blur", leaveOpen);
  const draw = (fault) => {
    const value = secondsOf(Number(valueOf(field.name)));
    setText(length, fault || value === null ? "" : `${value < 100 ? value.toFixed(1) : Math.round(value)} s`);
    number.draw(fault);
    leaveOpen();
    for (const stepper of steppers) stepper.hidden = isOpen();
    setText(hintLine, modelOf(draft.model)?.takes_audio ? "As many as the voice takes, unless fewer are given here." : hint);
  };
  return { ...number, draw };
}

function choiceField(field) {
  const options = field.choices.map((choice) => h("option", { value: String(choice) }, String(choice)));
  const control = h(
    "select",
    { onchange: () => setField(field.name, field.choices.find((choice) => String(choice) === control.value)) },
    ...options,
  );
  const frame = framed(field.name, field.label, control, { hint: field.hint, inline: true, reset: backTo(field) });
  const draw = (fault) => {
    control.value = shown(valueOf(field.name));
    frame.draw(fault);
  };
  return { ...frame, draw };
}

function switchField(field) {
  const control = h("input", { type: "checkbox", onchange: () => setField(field.name, control.checked) });
  const frame = framed(field.name, field.label, control, { hint: field.hint, inline: true, reset: backTo(field) });
  const draw = (fault) => {
    control.checked = Boolean(valueOf(field.name));
    frame.draw(fault);
  };
  return { ...frame, draw };
}

const KINDS = { text: textField, integer: numberField, number: numberField, choice: choiceField, switch: switchField };

// The field for whatever a recipe may hold.
export const fieldFor = (field) => KINDS[field.kind](field);
