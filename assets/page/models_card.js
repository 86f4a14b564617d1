// One model: what it can do, its licence, its size, whether it is here, and how it gets here.
import { arrange, button, h, setText } from "./dom.js";
import { bytes, seconds } from "./format.js";

const TASKS = {
  T2V: "video from words",
  I2V: "video from a picture",
  S2V: "video from a voice",
  T2I: "picture from words",
  I2I: "picture from a picture",
};
let serial = 0;

// `panel` is the Models of models.js.
export class ModelCard {
  constructor(panel) {
    this.panel = panel;
    const id = `model-${(serial += 1)}`;
    const described = { "aria-describedby": id };
    this.name = h("bdi", { class: "model-name", id });
    this.badge = h("span", { class: "badge" });
    this.note = h("p", { class: "model-note muted" });
    this.facts = h("dl", { class: "model-facts" });
    this.problem = h("p", { class: "models-fault" });
    this.use = button("Use this model", { text: true, class: "small primary", onclick: () => panel.use(this.model), ...described });
    this.get = button("Download", { icon: "download", text: true, class: "small", onclick: () => this.ask(), ...described });
    this.forget = button("Forget", { text: true, class: "small quiet", title: "Off the list; its files stay", onclick: () => panel.forget(this.model), ...described });
    this.actions = h("div", { class: "models-row" });
    this.offer = h("div", { class: "models-offer", hidden: true });
    this.bar = h("div", { class: "model-bar", role: "progressbar", "aria-labelledby": id, "aria-valuemin": 0, "aria-valuemax": 100 }, h("span"));
    this.arriving = h("span", { class: "number" });
    this.cancel = button("Cancel", { text: true, class: "small", onclick: () => panel.cancel(this.model.id), ...described });
    this.progress = h("div", { class: "model-progress", hidden: true }, this.bar, h("div", { class: "models-row" }, this.arriving, this.cancel));
    this.ended = h("p", { class: "model-ended", role: "status" });
    this.element = h(
      "div", { class: "model", role: "listitem" },
      h("header", { class: "model-head" }, h("h3", {}, this.name), this.badge),
      this.note, this.facts, this.problem, this.progress, this.ended, this.offer, this.actions,
    );
  }

  draw(model, used) {
    this.model = model;
    this.used = used;
    setText(this.name, model.name);
    setText(this.note, [model.id === model.name ? "" : model.id, model.note].filter(Boolean).join(" · "));
    this.element.classList.toggle("is-here", model.present);
    // Of a hub model that is not here nothing is wrong: its button says what it takes.
    setText(this.problem, model.present || model.hub ? "" : model.problem);
    const facts = [
      ["Makes", model.tasks.map((task) => `${TASKS[task] ?? task} (${task})`).join(", ") || "known once it is here"],
      ["Encoder outputs", model.encoder_reuse ? "reused" : "computed each time"],
      ["Kept segments", model.segment_reuse ? "reused" : "one segment a take"],
      ["FlowCache", model.flowcache_modes.join(", ") || "no"],
      ["Sizes", model.sizes.map(([width, height]) => `${width}\u00a0×\u00a0${height}`).join(", ")],
      ["Licence", licence(model)],
      ["On disk", model.size_on_disk ? bytes(model.size_on_disk) : "nothing yet"],
      ["Needs", model.needs],
    ];
    const known = model.present || model.tasks.length ? facts : facts.filter(([name]) => ["Makes", "Licence", "On disk"].includes(name));
    this.facts.replaceChildren(...known.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    this.drawActions();
  }

  drawActions() {
    const { model, used, download } = this;
    const open = download && (download.state === "asking" || download.state === "running");
    const partly = !model.present && model.size_on_disk > 0;
    setText(this.badge, open ? "downloading" : used && model.present ? "in use" : model.present ? "here" : partly && model.hub ? "partly here" : "not here");
    this.badge.dataset.kind = open ? "busy" : model.present ? "here" : "absent";
    const size = model.download_bytes && !partly ? `, about ${bytes(model.download_bytes)}` : "";
    setText(this.get.lastChild, partly ? "Go on with the download" : `Download${size}`);
    const canGet = model.hub && !model.present && !open && this.offer.hidden;
    arrange(this.actions, [model.present && !used ? this.use : null, canGet ? this.get : null, model.added && !open ? this.forget : null]);
  }

  drawDownload(download) {
    this.download = download;
    const open = download && (download.state === "asking" || download.state === "running");
    this.progress.hidden = !open;
    if (open) this.drawProgress(download);
    const told = !download || open || (download.state === "done" && this.model.present) ? "" : download.told;
    setText(this.ended, this.asked || told);
    this.ended.classList.toggle("models-fault", this.asked ? this.refused : download?.state === "failed");
    this.drawActions();
  }

  drawProgress({ state, bytes: had, total, speed, left }) {
    const part = total ? had / total : 0;
    this.bar.firstChild.style.transform = `scaleX(${part})`;
    this.bar.classList.toggle("is-asking", state === "asking");
    this.bar.setAttribute("aria-valuenow", Math.floor(100 * part));
    const words = state === "asking" ? ["Asking the hub…"] : [`${bytes(had)} of ${bytes(total)}`, `${Math.floor(100 * part)} %`];
    if (speed) words.push(`${bytes(speed)}/s`);
    if (left) words.push(`${seconds(left)} left`);
    setText(this.arriving, words.join(" · "));
  }

  // What came of asking the hub; it stays until it is asked again.
  tell(words, refused = false) {
    Object.assign(this, { asked: words, refused });
    this.drawDownload(this.download);
  }

  // What the download comes to is said before it starts.
  async ask() {
    this.get.disabled = true;
    this.tell("Asking the hub…");
    const { id } = this.model;
    try {
      const told = await this.panel.look(id);
      this.tell("");
      const no = () => {
        this.offer.hidden = true;
        this.drawActions();
        (this.get.isConnected ? this.get : this.cancel).focus();
      };
      this.offer.replaceChildren(...this.panel.offer(told, no));
      this.offer.hidden = false;
      this.drawActions();
      this.offer.querySelector("button").focus();
    } catch (error) {
      this.tell(error.fix ?? error.message, true);
    } finally {
      this.get.disabled = false;
      // A button that is disabled loses the focus.
      if (document.activeElement === document.body && this.get.isConnected) this.get.focus();
    }
  }
}

function licence(model) {
  if (!/^https:\/\//.test(model.licence_url)) return model.licence;
  const named = model.licence === "unknown" ? "see its page" : model.licence;
  return h("a", { href: model.licence_url, target: "_blank", rel: "noopener noreferrer" }, named, h("span", { class: "visually-hidden" }, " (opens in a new tab)"));
}
