// One place on the stage: a video or an image, its name, and what is said when it cannot be shown.
// The next video is loaded behind the one that is seen, and takes its place when it is ready.
import { h, setText } from "./dom.js";

const GONE = "The file of this take is gone; made again with the same seeds, it is joined anew from its segments.";
const BROKEN = "The file of this take cannot be played; made again with the same seeds, it is joined anew.";
const AWAY = "The studio does not answer. The video comes when it does.";
const PATIENCE_MS = 8000; // for which the other cells wait for one that loads

export class Cell {
  constructor(player) {
    this.player = player;
    this.name = h("span", { class: "stage-name" });
    this.side = h("button", { type: "button", class: "stage-side", hidden: true });
    this.actions = h("span", { class: "stage-actions" });
    this.fault = h("p", { class: "stage-fault", hidden: true });
    this.picture = h("div", { class: "stage-picture" }, this.fault);
    this.element = h(
      "div",
      { class: "stage-cell" },
      h("div", { class: "stage-frame" }, this.picture),
      h("div", { class: "stage-label" }, this.side, this.name, this.actions),
    );
    this.clear();
  }

  // {src, image, frames, fps, width, height, label}. With `grows`, it is the same film, only longer.
  show(item, grows = false) {
    this.picture.style.setProperty("--ratio", item.width / item.height);
    this.label = item.label;
    const shown = this.video ?? this.image;
    shown?.setAttribute(item.image ? "alt" : "aria-label", item.label);
    this.item = item;
    if (!grows) this.measure(item);
    if (this.src === item.src) return;
    this.src = item.src;
    this.begin(item);
  }

  begin(item) {
    const loading = this.load(item);
    this.ready = Promise.race([loading, new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]);
  }

  measure({ frames, fps }) {
    Object.assign(this, { frames, fps });
  }

  async load(item) {
    const coming = item.image ? this.makeImage(item) : this.makeVideo(item);
    this.coming?.remove();
    this.coming = coming;
    this.picture.append(coming);
    const loaded = await arrival(coming, item.image ? "load" : "loadeddata");
    if (this.coming !== coming) return;
    if (!loaded) return void (await this.fail(item));
    this.failed = false;
    if (!item.image) await this.player.place(this, coming);
    if (this.coming !== coming) return;
    this.replace(coming, item);
  }

  makeVideo(item) {
    const video = h("video", { class: "stage-media coming", preload: "auto", "aria-label": item.label });
    video.playsInline = true;
    video.disableRemotePlayback = true;
    video.muted = true;
    video.src = item.src;
    return video;
  }

  makeImage(item) {
    return h("img", { class: "stage-media coming", src: item.src, alt: item.label, draggable: "false" });
  }

  replace(media, item) {
    const old = [this.video, this.image].filter(Boolean);
    this.coming = null;
    this.video = item.image ? null : media;
    this.image = item.image ? media : null;
    this.measure(item);
    media.classList.remove("coming");
    this.say(null);
    if (this.video) this.player.joined(this);
    for (const one of old) fade(one);
  }

  async fail(item) {
    this.failed = true;
    this.drop();
    const away = await fetch(item.src, { headers: { Range: "bytes=0-0" } }).then(
      (answer) => this.say(answer.status === 404 ? (item.gone ?? GONE) : BROKEN),
      () => true,
    );
    if (away === true) this.say(AWAY);
    this.waits = away === true;
    this.player.changed();
  }

  // The studio answers again.
  retry() {
    if (!this.waits) return;
    this.waits = false;
    this.begin(this.item);
    this.player.seek(this.player.frame);
  }

  say(text) {
    setText(this.fault, text ?? "");
    this.fault.hidden = !text;
  }

  drop() {
    for (const one of [this.video, this.image, this.coming]) if (one) release(one);
    this.video = this.image = this.coming = null;
  }

  clear() {
    if (this.src) this.drop();
    Object.assign(this, { src: null, item: null, video: null, image: null, coming: null });
    Object.assign(this, { frames: 0, fps: 1, failed: false, waits: false, ready: Promise.resolve() });
    this.say(null);
  }
}

// Whether it has come, by the event `name`.
function arrival(media, name) {
  return new Promise((resolve) => {
    media.addEventListener(name, () => resolve(true), { once: true });
    media.addEventListener("error", () => resolve(false), { once: true });
  });
}

// It stays behind the new one until that has been painted.
function fade(media) {
  if (media instanceof HTMLVideoElement) media.pause();
  media.classList.add("going");
  requestAnimationFrame(() => requestAnimationFrame(() => release(media)));
}

// A video that is only taken off the page would go on loading.
function release(media) {
  media.remove();
  if (!(media instanceof HTMLVideoElement)) return;
  media.pause();
  media.removeAttribute("src");
  media.load();
}
