// The models panel: what each model can do, whether it is here, and getting more of them.
import { get, part, post, remove } from "./api.js";
import { run } from "./commands.js";
import { arrange, button, h, setText } from "./dom.js";
import { bytes } from "./format.js";
import { ModelCard } from "./models_card.js";
import { attempt, toast } from "./toasts.js";

const BUSY_MS = 500;
const IDLE_MS = 4000;

export const models = {
  name: "models",
  title: "Models",
  build: (frame) => new Models(frame),
};

class Models {
  constructor(frame) {
    this.frame = frame;
    this.cards = new Map();
    this.rates = new Map();
    this.list = h("div", { class: "models-list", role: "list", "aria-label": "Models" });
    this.waiting = h("p", { class: "muted" }, "Looking at the models…");
    this.element = h("div", { class: "models" }, this.waiting, this.list, this.adding());
    this.read();
    this.follow();
  }

  closed() {
    clearTimeout(this.timer);
  }

  async read() {
    const told = await attempt(() => get("/api/models"));
    if (!told || !this.frame.live) return;
    this.waiting.hidden = true;
    const used = run("draftRecipe")?.model;
    const here = new Set(told.map((model) => model.id));
    for (const id of this.cards.keys()) if (!here.has(id)) this.cards.delete(id);
    arrange(this.list, told.map((model) => {
      let card = this.cards.get(model.id);
      if (!card) this.cards.set(model.id, (card = new ModelCard(this)));
      card.draw(model, model.id === used);
      return card.element;
    }));
    this.drawDownloads(this.downloads ?? []);
  }

  // Downloads go on by themselves; this only looks.
  async follow() {
    clearTimeout(this.timer);
    const told = await get("/api/models/downloads").catch(() => null);
    if (!this.frame.live) return;
    const open = told?.some(isOpen);
    if (told) {
      const before = this.downloads;
      this.downloads = told;
      const ended = before?.some((one) => isOpen(one) && !told.some((now) => now.id === one.id && isOpen(now)));
      this.drawDownloads(told);
      if (ended) this.changed();
    }
    this.timer = setTimeout(() => this.follow(), open ? BUSY_MS : IDLE_MS);
  }

  drawDownloads(all) {
    for (const [id, card] of this.cards) {
      const one = all.find((download) => download.id === id) ?? null;
      card.drawDownload(one && { ...one, ...this.rate(one) });
    }
  }

  // Bytes a second over the last few looks, and what is left at that rate.
  rate(one) {
    const now = performance.now();
    const seen = (this.rates.get(one.id) ?? []).filter(([at, had]) => now - at < 8000 && had <= one.bytes);
    if (one.state === "running") seen.push([now, one.bytes]);
    this.rates.set(one.id, seen);
    const [from] = seen;
    const passed = from ? (now - from[0]) / 1000 : 0;
    if (passed < 1 || one.state !== "running") return { speed: null, left: null };
    const speed = (one.bytes - from[1]) / passed;
    return { speed, left: speed > 0 ? (one.total - one.bytes) / speed : null };
  }

  changed() {
    run("readModels");
    return this.read();
  }

  // ---------------------------------------------------------------- what can be done

  use(model) {
    const draft = run("draftRecipe")?.recipe ?? {};
    // What was written stays; numbers that fit another model do not come along.
    const words = Object.fromEntries(["prompt", "negative_prompt"].filter((name) => draft[name]).map((name) => [name, draft[name]]));
    run("setRecipe", { ...words, model: model.id });
    this.frame.close();
  }

  // What a download comes to: this asks the hub, and happens only when it is asked for.
  look(id) {
    return post("/api/models/look", { id });
  }

  async download(id) {
    const told = await post("/api/models/download", { id });
    await Promise.all([this.follow(), this.changed()]);
    return told;
  }

  async cancel(id) {
    await attempt(() => post("/api/models/download/cancel", { id }));
    await this.follow();
  }

  async forget(model) {
    if ((await attempt(() => remove(`/api/models/${part(model.id)}`))) === undefined) return;
    await this.changed();
    toast("It is off the list. Its files stay where they are.");
    this.folder.control.focus();
  }

  // ---------------------------------------------------------------- more models

  adding() {
    const offer = h("div", { class: "models-offer", hidden: true });
    const hub = new Form("By hub id", "org/name", "Look it up", "The studio asks the hub only now, when you look a model up or download it.", async (id) => {
      offer.hidden = true;
      const told = await this.look(id);
      offer.replaceChildren(...this.offer(told, () => ((offer.hidden = true), hub.control.focus()), () => hub.clear()));
      offer.hidden = false;
      offer.querySelector("button").focus();
    });
    this.folder = new Form("A folder on this machine", "/home/me/models/name", "Add folder", "A model in the diffusers layout: it has a model_index.json.", async (folder) => {
      const model = await post("/api/models/folder", { folder });
      await this.changed();
      this.folder.clear();
      toast(`${model.name} is among the models.`);
      this.cards.get(model.id)?.element.scrollIntoView({ block: "nearest" });
    });
    return h("section", { class: "models-adding", "aria-labelledby": "models-adding" },
      h("h3", { class: "models-heading", id: "models-adding" }, "Add a model"), hub.element, offer, this.folder.element);
  }

  // What is offered, and the two answers to it.
  offer(told, no, done) {
    const rest = told.total - told.bytes;
    const size = told.bytes ? `${bytes(rest)} of ${bytes(told.total)} are still to come` : `${bytes(rest)} in ${told.files} files`;
    const room = `${bytes(told.free)} free on the disk`;
    const words = h("p", {}, h("bdi", { class: "models-repo" }, told.repo), `: ${size}, ${room}. `, told.licence ? `Licence: ${told.licence}.` : "It names no licence: see its page on the hub.");
    const fault = h("p", { class: "models-fault", role: "alert" });
    const yes = button("Start the download", { text: true, class: "small primary" });
    yes.addEventListener("click", async () => {
      yes.disabled = true;
      try {
        await this.download(told.id);
        done?.();
        no();
      } catch (error) {
        setText(fault, error.fix ?? error.message);
      } finally {
        yes.disabled = false;
      }
    });
    return [words, fault, h("div", { class: "models-row" }, yes, button("Not now", { text: true, class: "small", onclick: no }))];
  }
}

const isOpen = (download) => download.state === "asking" || download.state === "running";

let serial = 0;

// One field with one button; what is wrong is told at the field.
class Form {
  constructor(label, example, act, hint, send) {
    const id = `models-form-${(serial += 1)}`;
    this.control = h("input", { class: "input", id, type: "text", placeholder: example, autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: 4000, "aria-describedby": `${id}-fault ${id}-hint` });
    this.fault = h("div", { class: "models-fault", id: `${id}-fault`, role: "alert" });
    this.go = h("button", { type: "submit", class: "btn" }, act);
    this.element = h(
      "form", { class: "field models-form", novalidate: true, onsubmit: (event) => this.submit(event, send) },
      h("label", { for: id }, label),
      h("div", { class: "models-row" }, this.control, this.go),
      this.fault,
      h("div", { class: "hint", id: `${id}-hint` }, hint),
    );
  }

  clear() {
    this.control.value = "";
  }

  async submit(event, send) {
    event.preventDefault();
    setText(this.fault, "");
    this.control.removeAttribute("aria-invalid");
    this.go.disabled = true;
    try {
      await send(this.control.value);
    } catch (error) {
      setText(this.fault, error.fix ?? error.message);
      this.control.setAttribute("aria-invalid", "true");
      this.control.focus();
    } finally {
      this.go.disabled = false;
    }
  }
}
