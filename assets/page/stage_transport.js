// What is under the picture: the scrubber with its marks, and the buttons that move the player.
import { arrange, button, h, icon, setText } from "./dom.js";

const SPEEDS = [0.25, 0.5, 1, 2];
const KEY = "retake.sound";

export class Transport {
  // `map()` gives what is played: {segments: [[first, end)], parts, selected}, or null.
  constructor(player, map) {
    Object.assign(this, { player, map, drawn: "", told: 0 });
    this.scrub = h("input", {
      type: "range", class: "stage-scrub", min: 0, max: 0, step: 1, value: "0", "aria-label": "Position",
      oninput: () => player.seek(Number(this.scrub.value)),
    });
    this.marks = h("div", { class: "stage-marks", "aria-hidden": "true" });
    this.track = h(
      "div",
      { class: "stage-track" },
      h(
        "div",
        { class: "stage-rail", "aria-hidden": "true" },
        this.marks,
        h("i", { class: "stage-played" }),
        h("i", { class: "stage-head" }),
      ),
      this.scrub,
    );
    this.playButton = button("Play", { icon: "play", class: "stage-play", onclick: () => player.toggle() });
    this.clock = h("span", { class: "number stage-clock" });
    this.where = h("span", { class: "muted stage-where" });
    this.loop = button("Loop this segment", {
      icon: "loop", class: "quiet", "aria-pressed": "false", onclick: () => this.toggleLoop(),
    });
    this.speed = h(
      "select",
      {
        class: "input number stage-speed", "aria-label": "Speed",
        onchange: () => player.setSpeed(Number(this.speed.value)),
      },
      SPEEDS.map((speed) => h("option", { value: String(speed) }, `${speed}×`)),
    );
    this.speed.value = "1";
    this.sound = this.makeSound();
    this.element = h(
      "div",
      { class: "stage-transport" },
      this.track,
      h(
        "div",
        { class: "stage-controls" },
        button("Back one frame", { icon: "back", class: "quiet", onclick: () => player.step(-1) }),
        this.playButton,
        button("Forth one frame", { icon: "forth", class: "quiet", onclick: () => player.step(1) }),
        h("span", { class: "stage-place" }, this.clock, this.where),
        h("span", { class: "stage-more" }, this.sound, this.speed, this.loop),
      ),
    );
  }

  makeSound() {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    this.player.setSound({ muted: kept.muted ?? false, volume: kept.volume ?? 1 });
    this.mute = button("Mute", {
      icon: "sound", class: "quiet", onclick: () => this.setSound({ muted: !this.player.muted }),
    });
    this.volume = h("input", {
      type: "range", class: "stage-range stage-volume", min: 0, max: 1, step: 0.05,
      value: String(this.player.volume), "aria-label": "Volume",
      oninput: () => this.setSound({ volume: Number(this.volume.value), muted: false }),
    });
    return h("span", { class: "stage-sound", hidden: true }, this.mute, this.volume);
  }

  setSound(patch) {
    this.player.setSound(patch);
    const { muted, volume } = this.player;
    localStorage.setItem(KEY, JSON.stringify({ muted, volume }));
  }

  // ---------------------------------------------------------------- loops

  // The segment under the playhead, from 0.
  get under() {
    const segments = this.map()?.segments ?? [];
    return Math.max(0, segments.findIndex(([first, end]) => this.player.frame >= first && this.player.frame < end));
  }

  get looped() {
    return (this.map()?.segments ?? []).findIndex(([first]) => first === this.player.loop?.[0]);
  }

  toggleLoop() {
    const map = this.map();
    if (this.player.loop) this.player.setLoop(null);
    else if (map) this.player.setLoop(map.segments[map.selected ?? this.under] ?? null);
  }

  loopSegment(index) {
    const span = this.map()?.segments[index];
    if (span) this.player.setLoop(this.looped === index ? null : span);
  }

  // ---------------------------------------------------------------- drawing

  draw() {
    const { player } = this;
    const map = this.map();
    const { frames, fps, frame } = player;
    const most = Math.max(1, frames);
    this.track.style.setProperty("--at", Math.min(1, (player.time * fps) / most));
    setText(this.clock, clock(frame, fps));
    const segment = map ? this.under : -1;
    setText(this.where, map?.segments.length > 1 ? `segment ${segment + 1} of ${map.segments.length}` : "");
    this.scrub.max = Math.max(0, frames - 1);
    this.scrub.value = frame;
    this.tell(frame, fps, map, segment);
    if (this.isPlaying !== player.playing) {
      this.isPlaying = player.playing;
      rename(this.playButton, player.playing ? "Pause" : "Play", player.playing ? "pause" : "play");
    }
    this.drawLoop(map);
    this.drawSound();
    this.drawMarks(map, most);
  }

  // While it plays, screen readers are told once a second at most.
  tell(frame, fps, map, segment) {
    const now = performance.now();
    if (this.player.playing && now - this.told < 1000) return;
    this.told = now;
    const which = map?.segments.length > 1 ? ` · segment ${segment + 1}` : "";
    const text = `${clock(frame, fps)}${which}`;
    if (this.scrub.getAttribute("aria-valuetext") !== text) this.scrub.setAttribute("aria-valuetext", text);
  }

  drawLoop(map) {
    const on = Boolean(this.player.loop);
    const index = on ? this.looped : (map?.selected ?? this.under);
    const name = on ? `Loop of segment ${index + 1}: play the whole again` : `Loop segment ${index + 1}`;
    this.loop.hidden = !(map?.segments.length > 1);
    if (this.loopName === name) return;
    this.loopName = name;
    rename(this.loop, name, "loop");
    this.loop.setAttribute("aria-pressed", on);
  }

  drawSound() {
    if (this.player.live.some(({ video }) => hasSound(video))) this.sound.hidden = false;
    else if (!this.player.playing) this.sound.hidden = true;
    const { muted, volume } = this.player;
    const state = `${muted} ${volume}`;
    if (this.soundState === state) return;
    this.soundState = state;
    rename(this.mute, muted ? "Sound on" : "Mute", muted ? "mute" : "sound");
    this.volume.value = String(muted ? 0 : volume);
    this.volume.setAttribute("aria-valuetext", muted ? "mute" : `${Math.round(volume * 100)} %`);
  }

  // The bounds of the segments, the place where takes part, the selected segment, the loop.
  drawMarks(map, most) {
    const loop = this.player.loop;
    const state = JSON.stringify([map, most, loop]);
    if (this.drawn === state) return;
    this.drawn = state;
    if (!map) return arrange(this.marks, []);
    const { segments, parts, selected } = map;
    const left = (frame) => `${(100 * frame) / most}%`;
    const band = (kind, [first, end]) =>
      h("i", { class: `stage-band ${kind}`, style: { left: left(first), width: left(Math.min(end, most) - first) } });
    const bands = [];
    if (parts !== null && segments[parts]) bands.push(band("parts", [segments[parts][0], most]));
    if (selected !== null && segments[selected]) bands.push(band("selected", segments[selected]));
    if (loop) bands.push(band("loop", loop));
    const bounds = segments.slice(1).map(([first], i) =>
      h("i", { class: `stage-bound ${i + 1 === parts ? "parts" : ""}`, style: { left: left(first) } }),
    );
    if (parts === 0) bounds.push(h("i", { class: "stage-bound parts", style: { left: "0%" } }));
    this.marks.replaceChildren(...bands, ...bounds);
    this.track.title = parts !== null && segments[parts] ? `They part at segment ${parts + 1}` : "";
  }
}

function clock(frame, fps) {
  const whole = Math.floor(frame / fps + 1e-6);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")} · frame ${frame}`;
}

function rename(element, name, picture) {
  element.setAttribute("aria-label", name);
  element.title = name;
  element.replaceChildren(icon(picture));
}

// Whether a video has a sound track: each browser tells it in another way, and some only while it plays.
function hasSound(video) {
  return Boolean(video.mozHasAudio || video.webkitAudioDecodedByteCount || video.audioTracks?.length);
}
