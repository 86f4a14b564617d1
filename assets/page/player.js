// Plays several videos as one: one clock, one length, one place in time.
//
// The longest video leads. The others follow it: a small lag is made up by playing a little faster
// or slower, a large one by gathering, which is to seek all of them and to start them together.
// A cell is {video, frames, fps, ready, failed}; `video` is null while there is nothing to play.

const LAG = 0.015; // seconds from which a video is nudged
const CLOSE = 0.004; // until which it is
const NUDGE = 0.04;
const FAR = 0.1; // from which all are gathered
const REST_MS = 500; // between two gatherings
const SETTLE_MS = 2000;
const INSIDE = 0.001; // a frame is sought a little behind its start, where no rounding gives another

export class Player {
  // `changed` is called after every change, and in every frame while it plays.
  constructor(element, changed) {
    Object.assign(this, { element, changed, cells: [], time: 0, playing: false, speed: 1 });
    Object.assign(this, { loop: null, muted: false, volume: 1, sounding: null, gathering: false });
    this.turn = 0;
    this.frameRequest = 0;
    this.gathered = 0;
    this.tick = this.tick.bind(this);
    document.addEventListener("visibilitychange", () => this.hide());
  }

  // ---------------------------------------------------------------- where it is

  get live() {
    return this.cells.filter((cell) => cell.video);
  }

  // The longest one; of several, the first.
  get lead() {
    return this.cells.reduce((best, cell) => (!best || lengthOf(cell) > lengthOf(best) ? cell : best), null);
  }

  get fps() {
    return this.lead?.fps || 1;
  }

  get frames() {
    return this.lead?.frames || 0;
  }

  get length() {
    return this.frames / this.fps;
  }

  get frame() {
    return Math.max(0, Math.min(this.frames - 1, Math.floor(this.time * this.fps + INSIDE)));
  }

  get span() {
    const [first, end] = this.loop ?? [0, this.frames];
    return [first / this.fps + INSIDE, end / this.fps];
  }

  // ---------------------------------------------------------------- what can be done

  // Shows these cells from `frame` on.
  open(cells, frame, playing) {
    this.cells = cells;
    this.playing = playing;
    return this.seek(frame);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    this.playing = true;
    if (this.frame >= this.frames - 1) this.time = this.span[0];
    this.gather(this.time);
  }

  pause() {
    this.playing = false;
    this.seek(this.frame);
  }

  seek(frame) {
    const inside = Math.max(0, Math.min(Math.max(0, this.frames - 1), frame));
    return this.gather(inside / this.fps + INSIDE);
  }

  step(by) {
    this.playing = false;
    this.seek(this.frame + by);
  }

  setSpeed(speed) {
    this.speed = speed;
    for (const { video } of this.live) video.playbackRate = speed;
    this.changed();
  }

  // `span`: [first frame, end) that is played over and over; null: all of it.
  setLoop(span) {
    this.loop = span;
    if (span && (this.frame < span[0] || this.frame >= span[1])) this.seek(span[0]);
    this.changed();
  }

  // One cell sounds, the others never do.
  setSound({ muted = this.muted, volume = this.volume, sounding = this.sounding }) {
    Object.assign(this, { muted, volume, sounding });
    for (const cell of this.live) this.sound(cell);
    this.changed();
  }

  sound(cell) {
    cell.video.muted = this.muted || cell !== (this.sounding ?? this.cells[0]);
    cell.video.volume = this.volume;
  }

  // Brings a video that is about to be shown to where the others are.
  async place(cell, video) {
    await put(video, within(cell, this.time));
  }

  // A cell has got its video, or another one than before.
  async joined(cell) {
    this.sound(cell);
    cell.video.playbackRate = this.speed;
    if (this.playing && !this.gathering) {
      await this.start([cell]);
      this.run();
    }
    this.changed();
  }

  // ---------------------------------------------------------------- how it keeps together

  // Brings all videos to one time, waits until they are there, and starts them together.
  async gather(time) {
    const turn = ++this.turn;
    this.time = time;
    this.gathering = true;
    for (const { video } of this.live) video.pause();
    this.changed();
    await Promise.all(this.cells.map((cell) => cell.ready));
    if (turn !== this.turn) return;
    this.time = time = Math.min(time, Math.max(0, this.length - 1 / this.fps) + INSIDE);
    await Promise.all(this.live.map((cell) => put(cell.video, within(cell, time))));
    if (turn !== this.turn) return;
    if (this.playing && !document.hidden) await this.start(this.live);
    if (turn !== this.turn) return;
    this.gathering = false;
    this.gathered = performance.now();
    this.run();
    this.changed();
  }

  async start(cells) {
    const going = cells.filter((cell) => this.time < lengthOf(cell) - 1 / cell.fps);
    for (const cell of going) {
      this.sound(cell);
      cell.video.playbackRate = this.speed;
    }
    await Promise.all(going.map(({ video }) => video.play().catch((error) => this.refused(video, error))));
  }

  // Browsers let nothing sound before the first click or key: then it plays without.
  refused(video, error) {
    if (error.name !== "NotAllowedError" || video.muted || !this.playing) return undefined;
    this.muted = true;
    video.muted = true;
    return video.play().catch(() => undefined);
  }

  run() {
    if (this.playing && !this.frameRequest) this.frameRequest = requestAnimationFrame(this.tick);
  }

  tick() {
    this.frameRequest = 0;
    if (!this.element.isConnected) this.playing = false;
    if (!this.playing) {
      for (const { video } of this.live) video.pause();
      return;
    }
    const before = this.frame;
    if (!this.gathering) this.follow();
    // The screen is drawn more often than the film has frames.
    if (this.frame !== before) this.changed();
    this.run();
  }

  follow() {
    const lead = this.lead;
    if (!lead?.video) return;
    const time = lead.video.currentTime;
    const [first, end] = this.span;
    this.time = time;
    if (lead.video.ended || time >= end - 0.01) return void this.gather(first);
    if (lead.video.paused) return void this.pause(); // by a key of the keyboard or by the browser
    const others = this.live.filter((cell) => cell !== lead && !cell.video.ended && !cell.video.paused);
    const lags = others.map(({ video }) => video.currentTime - time);
    const rested = performance.now() - this.gathered > REST_MS;
    if (rested && lags.some((lag) => Math.abs(lag) > FAR)) return void this.gather(time);
    others.forEach(({ video }, i) => nudge(video, lags[i], this.speed));
  }

  hide() {
    if (!this.playing) return;
    if (document.hidden) for (const { video } of this.live) video.pause();
    else this.gather(this.time);
  }
}

const lengthOf = (cell) => (cell.failed ? 0 : cell.frames || 0) / (cell.fps || 1);

// A video that is shorter than the time holds its last frame.
const within = (cell, time) => Math.min(time, Math.max(0, lengthOf(cell) - 1 / cell.fps) + INSIDE);

function nudge(video, lag, speed) {
  const by = Math.abs(lag);
  if (by > LAG) setRate(video, speed * (1 - Math.sign(lag) * NUDGE));
  else if (by < CLOSE) setRate(video, speed);
}

function setRate(video, rate) {
  if (video.playbackRate !== rate) video.playbackRate = rate;
}

// Seeks, and resolves when the picture is there, or when waiting is of no use.
function put(video, time) {
  if (!video.seeking && Math.abs(video.currentTime - time) < 1e-4) return Promise.resolve();
  video.currentTime = time;
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      for (const name of ["seeked", "error", "emptied"]) video.removeEventListener(name, end);
      resolve();
    };
    const timer = setTimeout(end, SETTLE_MS);
    for (const name of ["seeked", "error", "emptied"]) video.addEventListener(name, end);
  });
}
