// Light or dark: what the address says (?__theme=), else what was chosen here, else the system.
const KEY = "retake.scheme";

function wanted() {
  const asked = new URLSearchParams(location.search).get("__theme");
  if (asked === "dark" || asked === "light") return asked;
  const kept = localStorage.getItem(KEY);
  if (kept) return kept;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function isDark() {
  return document.body.classList.contains("dark");
}

export function toggleScheme() {
  const next = isDark() ? "light" : "dark";
  localStorage.setItem(KEY, next);
  apply(next);
}

function apply(scheme) {
  document.body.classList.toggle("dark", scheme === "dark");
}

apply(wanted());
// Gradio sets the class by itself once it has started.
addEventListener("load", () => apply(wanted()));
