// Says calmly why the last job of the open session did not come to its end, and what can be done.
import { post } from "./api.js";
import { button, h, setText } from "./dom.js";
import { jobHere, poll, store } from "./store.js";
import { attempt } from "./toasts.js";

const KEY = "retake.dismissed";
const HEADS = { failed: "The last take did not come about", cancelled: "The last take was stopped" };
const AGAIN = { failed: "Try again with the same seed", cancelled: "Resume" };

const dismissed = () => JSON.parse(sessionStorage.getItem(KEY) ?? "[]");

// The newest ended job of the open session.
export const lastEnded = () => store.state?.ended.find((job) => job.session === store.name) ?? null;

// That job, if it failed or was stopped, nothing came after it, and it was not dismissed.
export function troubled() {
  const job = lastEnded();
  if (!job || !HEADS[job.state] || jobHere() || dismissed().includes(job.id)) return null;
  return job;
}

export class Notice {
  constructor(changed) {
    this.changed = changed;
    this.head = h("strong", { class: "stage-notice-head" });
    this.told = h("p", { class: "stage-notice-told" });
    this.kept = h("p", { class: "muted stage-notice-kept" });
    this.again = button("Resume", { class: "primary small", onclick: () => this.order() });
    this.close = button("Dismiss", { class: "small", onclick: () => this.dismiss() });
    this.element = h(
      "div",
      { class: "stage-notice", role: "status", hidden: true },
      h("div", { class: "stage-notice-words" }, this.head, this.told, this.kept),
      h("div", { class: "stage-notice-acts" }, this.again, this.close),
    );
  }

  draw() {
    const job = troubled();
    this.job = job;
    this.element.hidden = !job;
    if (!job) return [this.head, this.told, this.kept].forEach((line) => setText(line, ""));
    this.element.dataset.state = job.state;
    setText(this.head, HEADS[job.state]);
    setText(this.told, job.told || "It ended without a word.");
    const done = job.progress.done?.length ?? 0;
    const kept = done ? `Finished and kept: ${done} of ${job.segments} segments.` : "";
    setText(this.kept, kept);
    return setText(this.again, AGAIN[job.state]);
  }

  async order() {
    const { id } = this.job;
    this.again.disabled = true;
    await attempt(() => post(`/api/jobs/${id}/again`));
    await poll();
    this.again.disabled = false;
  }

  dismiss() {
    sessionStorage.setItem(KEY, JSON.stringify([...dismissed(), this.job.id].slice(-50)));
    this.changed();
  }
}
