// The stage: one take, A|B or a grid of up to four under one transport; or what is there already of
// the take that is being made.
import { commands, run } from "./commands.js";
import { Looks } from "./compare.js";
import { arrange, button, h, setText } from "./dom.js";
import { seconds } from "./format.js";
import { Player } from "./player.js";
import { Cell } from "./stage_cell.js";
import { emptyPicture } from "./stage_empty.js";
import { ExportMenu } from "./stage_export.js";
import { Live } from "./stage_live.js";
import { isImage, itemOf, nameOf, partOf, secondsOf } from "./stage_names.js";
import { lastEnded, Notice, troubled } from "./stage_notice.js";
import { Transport } from "./stage_transport.js";
import { baseline, divergence, jobHere, on, ready, show, store, subscribe, takeOf, target } from "./store.js";

const MOST = 4;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export function mount(element) {
  const stage = new Stage(element);
  Object.assign(commands, {
    toggle: () => stage.playable && stage.player.toggle(),
    frame: (by) => stage.playable && stage.player.step(by),
    side: (side) => stage.choose(side),
    seekSegment: (index) => stage.seekSegment(index),
    loopSegment: (index) => stage.playable && stage.transport.loopSegment(index),
  });
  on("back", () => stage.cells.forEach((cell) => cell.retry()));
  ready.then(() => subscribe(element, () => stage.draw()));
}

class Stage {
  constructor(element) {
    Object.assign(this, { cells: [], scene: { kind: "wait", takes: [] }, side: null, pool: [] });
    const redraw = () => this.draw();
    this.player = new Player(element, () => this.transport?.draw());
    this.transport = new Transport(this.player, () => this.map);
    this.looks = new Looks(() => this.drawLooks());
    this.live = new Live(redraw);
    this.notice = new Notice(redraw);
    this.exports = new ExportMenu(() =>
      this.scene.takes.map((take, i, takes) => ({ name: nameOf(take, i, takes), take })),
    );
    this.build(element);
  }

  build(element) {
    this.title = h("h2", { class: "panel-title stage-title" });
    this.facts = h("span", { class: "muted stage-facts" });
    this.accept = button("Accept", {
      class: "small stage-accept", onclick: () => run("acceptShown", this.scene.takes.at(-1).id),
    });
    this.compare = button("Compare with A", {
      class: "small", onclick: () => this.compareWith(this.scene.takes[0]),
    });
    this.close = button("Close comparison", {
      icon: "close", class: "small quiet", onclick: () => show([baseline()?.id ?? this.scene.takes[0].id]),
    });
    this.close.classList.replace("icon", "stage-close");
    this.close.append(h("span", { class: "stage-wide" }, "Close comparison"));
    this.left = h("div", { class: "stage-left" });
    this.right = h("div", { class: "stage-right" });
    this.grid = h("div", { class: "stage-cells dark", onclick: (event) => this.click(event) });
    this.empty = emptyPicture();
    this.screen = h("div", { class: "stage-screen" }, this.grid, this.empty, this.live.element, this.notice.element);
    this.panel = h(
      "div",
      { class: "panel stage-panel" },
      h("div", { class: "stage-top" }, this.left, this.right),
      this.screen,
      this.transport.element,
    );
    element.append(this.panel);
  }

  get playable() {
    return this.cells.some((cell) => cell.item && !cell.item.image);
  }

  // ---------------------------------------------------------------- what is to be seen

  look() {
    const shown = store.view.takes.map(takeOf).filter(Boolean).slice(0, MOST);
    if (!shown.length && baseline()) shown.push(baseline());
    const job = jobHere();
    if (shown.length) {
      const key = `${store.name}:${shown.map((take) => take.id)}:${store.view.opened ?? ""}`;
      return { kind: "takes", key, session: store.name, takes: shown, job: job?.state === "running" ? job : null };
    }
    const ended = lastEnded();
    // A job that is done is shown until its take is there; one that is not, as far as it came.
    const wasHere = this.scene.kind === "live" && this.scene.job.id === ended?.id;
    const came = ended?.state === "done" ? wasHere : ended?.progress.done?.length > 0;
    const made = job ?? (came ? ended : null);
    if (made) return { kind: "live", key: `job ${made.id}`, takes: [], job: made, parts: this.live.finished(made) };
    if (store.state?.session && !store.session) return { ...this.scene, kind: "wait" };
    return { kind: "empty", key: "empty", takes: [], job: null };
  }

  draw() {
    const before = this.scene;
    const scene = (this.scene = this.look());
    if (scene.kind === "wait") return;
    this.opens = before.key !== scene.key;
    if (this.opens) {
      this.side = null;
      this.exports.close();
    }
    this.drawCells(before);
    const bare = !this.cells.length && !this.previewMode();
    this.panel.dataset.bare = bare;
    this.empty.hidden = scene.kind !== "empty" || Boolean(troubled());
    this.live.draw(scene.job, this.previewMode());
    this.notice.draw();
    this.drawTop();
    this.drawLooks();
    // Of images there is nothing to play; before the first picture the transport keeps its place.
    this.transport.element.hidden = this.cells.length > 0 && !this.playable;
    this.transport.element.inert = !this.cells.length;
    this.transport.draw();
  }

  previewMode() {
    const { job, kind } = this.scene;
    if (!job || !["running", "waiting"].includes(job.state)) return null;
    return kind === "live" && !this.cells.length ? "full" : "small";
  }

  items() {
    const { kind, takes, job, parts } = this.scene;
    if (kind === "takes") return takes.map((take, i) => itemOf(take, nameOf(take, i, takes)));
    if (kind !== "live" || !parts) return [];
    const { fps, width, height } = job;
    const gone = "What is finished of this take cannot be played; the take itself is not affected.";
    return [{ src: parts.src, frames: parts.frames, fps, width, height, gone, label: "What is finished of this take" }];
  }

  // Cells keep what they show: a take that stays is not loaded again, nor does it stop to play.
  drawCells(before) {
    const items = this.items();
    const same = !this.opens && items.length === this.cells.length;
    if (!same) {
      const free = [...this.cells];
      const kept = items.map((item) => takeOut(free, (cell) => cell.src === item.src));
      this.cells = items.map((item, i) => kept[i] ?? free.shift() ?? this.pool.pop() ?? new Cell(this.player));
      for (const cell of free) cell.clear();
      this.pool.push(...free);
      arrange(this.grid, [...this.cells.map((cell) => cell.element), this.looks.divider]);
    }
    this.grid.dataset.count = this.cells.length;
    this.cells.forEach((cell, i) => {
      cell.show(items[i], !this.opens);
      this.labelCell(cell, i);
    });
    if (!store.away) for (const cell of this.cells) cell.retry();
    this.map = this.mapOf();
    if (!same) this.open(before);
  }

  // Where it opens, and whether it plays: at the place where takes part; a single take where the
  // one before it was, going on if that was going.
  open(before) {
    const { kind, takes, parts } = this.scene;
    const { player } = this;
    player.setLoop(null);
    player.setSound({ sounding: this.cells[0] ?? null });
    if (!this.cells.length) return void player.open([], 0, false);
    const asked = store.view.at ?? this.map?.parts ?? null;
    const goesOn = before.kind === "live" || (before.kind === "takes" && before.session === store.name);
    const first = kind === "takes" ? this.map?.segments[asked]?.[0] : undefined;
    const frame = first ?? (goesOn ? player.frame : 0);
    const opened = kind === "takes" ? takes.length > 1 && Boolean(store.view.opened) : Boolean(parts);
    player.open(this.cells, frame, player.playing || (opened && !calm.matches));
  }

  // The segments of the longest take, the one from which they part, and the chosen one.
  mapOf() {
    const { kind, takes, parts } = this.scene;
    if (kind === "live") return parts ? { segments: parts.segments, parts: null, selected: null } : null;
    if (!takes.length || isImage(takes[0])) return null;
    const longest = takes.reduce((best, take) => (secondsOf(take) > secondsOf(best) ? take : best));
    const at = takes.length > 1 ? partOf(takes) : null;
    const chosen = target();
    const selected = chosen && takes.some((take) => take.id === chosen.take.id) ? chosen.index : null;
    return { segments: longest.frames, parts: at, selected };
  }

  // ---------------------------------------------------------------- names and buttons

  labelCell(cell, i) {
    const { takes } = this.scene;
    const take = takes[i];
    const pair = takes.length === 2;
    cell.element.dataset.side = pair ? "ab"[i] : "";
    cell.side.hidden = !pair;
    cell.name.hidden = takes.length < 3;
    if (!take) return arrange(cell.actions, []);
    const name = nameOf(take, i, takes);
    setText(pair ? cell.side : cell.name, name);
    cell.side.title = `Show ${"AB"[i]} alone, or both (key ${"AB"[i]})`;
    cell.side.setAttribute("aria-pressed", this.side === "ab"[i]);
    cell.side.onclick = () => this.choose("ab"[i]);
    if (takes.length < 3 || take.baseline) return arrange(cell.actions, []);
    cell.accept ??= button("Accept", { class: "small", onclick: () => run("acceptShown", cell.take.id) });
    cell.compare ??= h(
      "button",
      { type: "button", class: "btn small", onclick: () => this.compareWith(cell.take) },
      "Compare", h("span", { class: "stage-wide" }, "with A"),
    );
    cell.take = take;
    cell.accept.setAttribute("aria-label", `Accept ${name}`);
    cell.compare.setAttribute("aria-label", `Compare ${name} with A`);
    return arrange(cell.actions, [cell.accept, baseline() && cell.compare]);
  }

  drawTop() {
    const { takes } = this.scene;
    const one = takes.length === 1 ? takes[0] : null;
    const pair = takes.length === 2;
    setText(this.title, this.titleOf());
    const n = one?.segment_ids.length;
    const facts = one && !isImage(one) ? `${n} ${n === 1 ? "segment" : "segments"}, ${seconds(one.seconds)}` : "";
    setText(this.facts, facts);
    arrange(this.left, pair ? [this.looks.element] : [this.title, this.facts]);
    const last = takes.at(-1);
    const offers = (pair || one) && !last.baseline;
    setText(this.accept, pair ? "Accept B" : "Accept");
    arrange(this.right, [
      offers && this.accept,
      one && offers && baseline() && this.compare,
      takes.length > 1 && this.close,
      takes.length && this.exports.element,
    ]);
  }

  titleOf() {
    const { kind, takes, job } = this.scene;
    if (takes.length) return takes.length === 1 ? nameOf(takes[0], 0, takes) : `${takes.length} takes`;
    if (kind !== "live") return "Stage";
    return ["running", "waiting", "done"].includes(job.state) ? "A take is being made" : "What is finished";
  }

  drawLooks() {
    const pair = this.cells.length === 2 && this.scene.kind === "takes";
    this.grid.dataset.side = (pair && this.side) || "";
    const first = this.cells[0]?.item;
    this.looks.draw(this.grid, pair && !this.side, first ? first.width / first.height : 1);
    this.cells.forEach((cell, i) => pair && cell.side.setAttribute("aria-pressed", this.side === "ab"[i]));
  }

  // ---------------------------------------------------------------- what can be done

  // A or B alone; the same once more: both.
  choose(side) {
    if (this.scene.takes.length !== 2) return;
    this.side = this.side === side ? null : side;
    this.player.setSound({ sounding: this.cells[this.side === "b" ? 1 : 0] });
    this.drawLooks();
  }

  compareWith(take) {
    const a = baseline();
    show([a.id, take.id], divergence(a, take));
  }

  seekSegment(index) {
    const span = this.map?.segments[index];
    if (span) this.player.seek(span[0]);
  }

  click(event) {
    if (this.playable && event.target.closest(".stage-picture")) this.player.toggle();
  }
}

function takeOut(list, fits) {
  const i = list.findIndex(fits);
  return i < 0 ? null : list.splice(i, 1)[0];
}
