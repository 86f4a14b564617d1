// Files in the draft: a file goes to the studio at once, and the draft holds where it lies there.
import { post } from "./api.js";
import { h } from "./dom.js";
import { draft, edit, herePlace, isPlace, setField } from "./recipe_draft.js";
import { fieldOf, modelOf, reads } from "./recipe_facts.js";
import { toast } from "./toasts.js";

// Files of the library are named by their own folder and their name.
export const urlOf = (path) => `/api/inputs/${path.split(/[\\/]/).slice(-2).map(encodeURIComponent).join("/")}`;
export const nameOf = (path) => draft.files[path] ?? path.split(/[\\/]/).pop();

// Gives a file to the draft, for the recipe field `name`: in place of the one that is there, or
// beside the others where the field takes several.
export async function setInput(name, file) {
  const field = fieldOf(name);
  const model = modelOf(draft.model);
  if (!reads(model, field)) {
    toast(`${model?.name ?? draft.model} takes no ${field.label.toLowerCase()}: choose another model first.`, { bad: true });
    return;
  }
  const place = herePlace();
  const form = new FormData();
  form.append("kind", name);
  form.append("file", file);
  const told = await post(`/api/inputs?kind=${name}`, form);
  if (!isPlace(place)) {
    toast(`${told.name} was not used: another session was opened before it was here.`, { bad: true });
    return;
  }
  edit({ files: { ...draft.files, [told.path]: told.name } });
  setField(name, field.kind === "file" ? told.path : [...listOf(name), field.kind === "loras" ? { file: told.path, strength: 1 } : told.path]);
}

export const listOf = (name) => draft.recipe[name] ?? [];
const ACCEPTS = { audio: "audio/*", audio_2: "audio/*", loras: ".safetensors" };
export const VIDEO = /\.(mp4|m4v|mov|webm|mkv|avi|ogv|mpg|flv)$/i;
const isSound = (name) => name.startsWith("audio");

// Whether the chosen model takes a video where others take a picture.
export const takesVideo = (name) => name === "image" && Boolean(modelOf(draft.model)?.takes_audio);
export const acceptsOf = (name) => ACCEPTS[name] ?? (takesVideo(name) ? "image/*,video/*" : "image/*");

// A picture, a video or a voice of the library, to be seen or heard.
export function mediaOf(name, path) {
  if (!isSound(name) && VIDEO.test(path)) return videoOf(path);
  if (isSound(name)) return h("audio", { src: urlOf(path), controls: true, preload: "metadata", class: "recipe-player" });
  return h("img", { src: urlOf(path), alt: `The picture ${nameOf(path)}`, class: "recipe-thumb" });
}

// Its first picture; it plays while it is pointed at. A browser cannot show every kind.
function videoOf(path) {
  const video = h("video", {
    src: urlOf(path), class: "recipe-thumb", "aria-label": `The video ${nameOf(path)}`, playsinline: true, loop: true, preload: "metadata",
    onerror: () => video.replaceWith(h("span", { class: "recipe-thumb recipe-unseen" }, "Video")),
    onpointerenter: () => video.play().catch(() => {}),
    onpointerleave: () => video.pause(),
  });
  video.muted = true;
  return video;
}
