// What is there of a take that is being made: its last preview, how far it is, and the finished
// segments, which are played as one video.
import { get, prefixOf } from "./api.js";
import { h, setText } from "./dom.js";
import { store } from "./store.js";

const STAGES = {
  load: "Loading the model",
  encode: "Reading the prompt",
  join: "Joining the segments",
};
const HAZE = 10; // pixels of blur of the first preview, on a large stage

export class Live {
  constructor(changed) {
    Object.assign(this, { changed, shown: "", address: null, prefix: null, asking: "" });
    this.image = h("img", { class: "stage-preview-image", alt: "", hidden: true });
    this.words = h("span", { class: "stage-preview-words" });
    this.bar = h("i", { class: "stage-preview-done" });
    this.element = h(
      "div",
      { class: "stage-preview dark", role: "img", hidden: true },
      h("div", { class: "stage-preview-box" }, this.image),
      h("div", { class: "stage-preview-told" }, this.words, h("i", { class: "stage-preview-bar" }, this.bar)),
    );
  }

  // `mode`: "full", "small" or null.
  draw(job, mode) {
    this.element.hidden = !mode;
    if (!mode) return void this.forget();
    if (this.job !== job.id) this.forget();
    this.job = job.id;
    const at = job.progress;
    this.element.dataset.mode = mode;
    setText(this.words, wordsOf(job));
    this.element.setAttribute("aria-label", `Preview: ${wordsOf(job)}`);
    const part = at.steps ? at.step / at.steps : 0;
    this.bar.style.width = `${100 * part}%`;
    this.element.style.setProperty("--haze", `${HAZE * (1 - 0.7 * part)}px`);
    this.element.style.setProperty("--ratio", job.width / job.height || 1.5);
    if (job.state === "running" && at.preview_rev) this.look(job.id, at.preview_rev);
  }

  // Fetches the newest picture, one at a time; there may be none, which is no fault.
  async look(job, rev) {
    const key = `${job}/${rev}`;
    if (this.shown === key || this.asking) return;
    this.asking = key;
    try {
      const answer = await fetch(`/api/jobs/${job}/preview?rev=${rev}`);
      if (answer.status !== 200) return;
      const address = URL.createObjectURL(await answer.blob());
      const old = this.address;
      this.image.src = this.address = address;
      this.image.hidden = false;
      await this.image.decode().catch(() => undefined);
      if (old) URL.revokeObjectURL(old);
    } catch {
      // The studio is away: the page says so elsewhere.
    } finally {
      this.shown = key;
      this.asking = "";
    }
  }

  forget() {
    if (!this.address) return;
    URL.revokeObjectURL(this.address);
    this.image.removeAttribute("src");
    Object.assign(this, { address: null, shown: "" });
    this.image.hidden = true;
  }

  // The finished part of a job: {src, segments, frames}, or what was known of it before. What is
  // not known yet is asked for; `changed` is called when it has come.
  finished(job) {
    if (this.prefix?.job !== job.id) this.prefix = null;
    const last = job.progress.done?.at(-1);
    if (last && last !== this.prefix?.last && this.wanted !== last) {
      this.wanted = last;
      get(`/api/prefix/${last}`)
        .then((told) => {
          const segments = told.frames;
          this.prefix = { job: job.id, last, src: prefixOf(last), segments, frames: segments.at(-1)[1] };
          this.changed();
        })
        .catch((error) => console.warn(error.message))
        .finally(() => (this.wanted = null));
    }
    return this.prefix;
  }
}

export function wordsOf(job) {
  const at = job.progress;
  if (job.state === "waiting") {
    const before = store.state.jobs.findIndex((one) => one.id === job.id);
    return before > 0 ? `In the queue, ${before} before it` : "Starts in a moment";
  }
  if (STAGES[at.stage]) return STAGES[at.stage];
  if (!at.stage) return "Starts in a moment";
  const segment = `Segment ${at.segment + 1}`;
  if (at.stage === "reused") return `${segment} comes from disk`;
  if (!at.step) return `${segment} is finished`;
  return at.step === at.steps ? `${segment} · decoding` : `${segment} · step ${at.step}/${at.steps}`;
}
