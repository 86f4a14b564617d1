// A result file dropped on the page, or chosen: its recipe and its seeds come back, and its session
// if the library has it.
import { get, post } from "./api.js";
import { commands, run } from "./commands.js";
import { h } from "./dom.js";
import { VIDEO } from "./recipe_inputs.js";
import { openSession, show } from "./store.js";
import { toast } from "./toasts.js";

const MOST_BYTES = 2_000_000_000;
const RESULT = /\.(mp4|png)$/i;
const SOUND = /\.(wav|mp3|flac|ogg|opus|m4a|aac)$/i;
const NAMES = {
  image: "picture", last_image: "last picture", references: "further pictures",
  audio: "voice", audio_2: "second voice", masks: "masks", loras: "LoRA",
};
const SEVERAL = ["references", "masks"];

export function mountDrop(element) {
  const veil = h(
    "div", { class: "drop-veil", popover: "manual", "aria-hidden": "true" },
    h("p", {}, "Drop a result (mp4, png) to bring its recipe back"),
  );
  element.append(veil);
  let depth = 0;

  const lift = () => {
    depth = 0;
    if (veil.matches(":popover-open")) veil.hidePopover();
  };
  const brings = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  // Counted on the way down, so that a region with a place of its own for files cannot hide it.
  addEventListener("dragenter", (event) => {
    if (!brings(event)) return;
    depth += 1;
    if (!veil.matches(":popover-open")) veil.showPopover();
  }, true);
  addEventListener("dragleave", (event) => {
    if (!brings(event)) return;
    depth -= 1;
    if (depth <= 0) lift();
  }, true);
  addEventListener("drop", lift, true);
  addEventListener("dragend", lift, true);
  addEventListener("dragover", (event) => {
    if (!brings(event) || event.defaultPrevented) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  });
  addEventListener("drop", (event) => {
    if (event.defaultPrevented || !brings(event)) return;
    // Else the browser would leave the page for the file.
    event.preventDefault();
    const file = event.dataTransfer.files[0];
    if (file) run("openFile", file);
  });
}

// True if the file was of use.
export async function openFile(file) {
  if (SOUND.test(file.name) || file.type.startsWith("audio/")) return give("audio", file, "is no result");
  const isSeen = /^(image|video)\//.test(file.type) || VIDEO.test(file.name);
  if (!RESULT.test(file.name)) {
    return isSeen ? give("image", file, "is no result") : no(`${file.name} is no result: open an mp4 or a png that was made here.`);
  }
  if (file.size > MOST_BYTES) return no(`${file.name} is too large to be a result.`);
  const form = new FormData();
  form.append("file", file);
  let told;
  try {
    told = await post("/api/open", form);
  } catch (error) {
    if (error.status !== 422) return no(error.message);
    const none = error.fix?.startsWith("It holds no recipe");
    return none && isSeen ? give("image", file, "holds no recipe of Retake") : no(`${file.name}: ${error.fix ?? error.message}`);
  }
  return told.take ? showTake(told) : bringBack(file.name, told);
}

async function showTake({ session, take }) {
  try {
    await openSession(session);
  } catch (error) {
    return no(error.message);
  }
  show([take]);
  toast(`Opened its session: ${session}`);
  return true;
}

function bringBack(name, told) {
  run("setRecipe", told.recipe, told.seeds);
  const seeds = told.seeds.length === 1 ? "seed" : `${told.seeds.length} seeds`;
  const words = [`Back from ${name}: the recipe and its ${seeds}.`];
  if (told.chapters.length > 1) words.push(`From segment ${told.chapters[1].first + 1} on it had another recipe, which is not in the rail.`);
  for (const field of told.lost) {
    const again = SEVERAL.includes(field) ? "are not in this library: choose them again" : "is not in this library: choose it again";
    words.push(`Its ${NAMES[field]} ${again}.`);
  }
  if (!told.model_problem) toast(words.join(" "));
  else {
    words.push(`Its model ${told.recipe.model} cannot be used here.`);
    toast(words.join(" "), { bad: true, action: { name: "Models", run: () => run("openModels") } });
  }
  return true;
}

// A file that is no result may still be what the model starts from; a video is that of one that takes
// a voice.
async function give(kind, file, otherwise) {
  const id = run("draftRecipe")?.model;
  const known = await get("/api/models").catch(() => []);
  const model = known.find((one) => one.id === id);
  const isVideo = kind === "image" && file.type.startsWith("video/");
  if (!model?.[`takes_${kind}`] || (isVideo && !model.takes_audio) || !commands.setInput) {
    return no(`${file.name} ${otherwise}${model ? `, and ${model.name} takes no ${isVideo ? "video" : NAMES[kind]}` : ""}.`);
  }
  await run("setInput", kind, file);
  return true;
}

function no(text) {
  toast(text, { bad: true });
  return false;
}
