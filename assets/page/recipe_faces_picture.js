// The picture with the boxes of its two persons, to be drawn, moved and resized: by a pointer, or
// box by box with the keyboard.
import { h } from "./dom.js";
import { drawn, moved, pulled } from "./recipe_boxes.js";
import { alike, sizeAsRead } from "./recipe_faces_size.js";
import { urlOf, VIDEO } from "./recipe_inputs.js";
import { store } from "./store.js";

const CORNERS = [[0, 0], [1, 0], [0, 1], [1, 1]];
const REACH = { mouse: 12, other: 32 }; // pixels of the screen to a corner, from where it is taken
const SHARE = 0.45; // of a side of a small box, within which one of its corners is taken
const STARTS = 4; // pixels of the screen: what is less is a click
const STEP = 0.01; // of a side of the picture, for a key
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class FacesPicture {
  // `faces` holds the boxes: boxes(), hold(boxes) while one is pulled, settle(boxes), drop(),
  // nameOf(n), least(size). In the rail, where there is a larger view, a finger scrolls the page, and
  // taps for `larger()`.
  constructor(faces, { keys, remove, larger }) {
    this.faces = faces;
    this.remove = remove;
    this.larger = larger;
    this.size = null; // [width, height] in which the studio reads the picture, once it can be drawn on
    this.told = null; // the same, even if it cannot be drawn on
    this.path = null;
    this.unseen = false; // this browser cannot show it, or shows it otherwise than the studio reads it
    this.missed = false; // it could not be read while the studio was away
    this.pull = null;
    this.during = null; // what is listened to during a pull
    this.kind = ""; // of the pointer that came down last; not every browser tells it of a click
    this.boxes = [0, 1].map((n) =>
      h(
        "button",
        {
          type: "button", class: `faces-box is-${n + 1}`, "aria-roledescription": "movable box", "aria-describedby": keys, hidden: true,
          onkeydown: (event) => this.key(event, n),
        },
        h("span", { class: "faces-number" }, String(n + 1), larger ? null : ` ${faces.nameOf(n)}`),
        ...CORNERS.map(([x, y]) => h("span", { class: `faces-corner at-${x}${y}` })),
      ),
    );
    this.element = h("div", {
      class: `faces-picture ${larger ? "" : "is-large"}`, role: "application", "aria-label": "Faces in the picture",
      onpointerdown: (event) => this.down(event),
      onpointermove: (event) => this.move(event),
      onclick: (event) => this.larger && this.kind !== "mouse" && event.detail && this.larger(),
      ondragstart: (event) => event.preventDefault(),
    });
  }

  // ---------------------------------------------------------------- what is seen

  see(path) {
    this.missed ||= this.unseen && store.away;
    if (path === this.path && !(this.missed && !store.away)) return;
    this.path = path;
    this.size = null;
    this.let();
    this.told = this.size = this.faces.sizeOf(path);
    this.unseen = this.missed = false;
    const seen = path ? (VIDEO.test(path) ? film(path) : still(path)) : null;
    this.element.replaceChildren(...(seen ? [seen.element] : []), ...this.boxes);
    if (seen) this.learn(seen, path);
  }

  async learn({ element, shown }, path) {
    const [told, size] = await Promise.all([sizeAsRead(path), shown]);
    if (!this.element.contains(element)) return;
    this.told = told;
    this.size = told && size && alike(told, size) ? told : null;
    this.unseen = !this.size;
    element.onerror = () => this.learn({ element, shown: null }, path);
    this.faces.show();
  }

  // Of another studio it may be there now.
  again() {
    this.missed = this.unseen;
  }

  draw() {
    const { size } = this;
    this.element.hidden = !size;
    if (!size) return;
    this.element.style.setProperty("--ratio", size[0] / size[1]);
    const boxes = this.faces.boxes();
    this.boxes.forEach((element, n) => {
      const box = boxes[n];
      // As numbers it can be written anywhere: what lies outside of the picture is not seen.
      const part = box?.map((at, side) => Math.max(0, Math.min(1, at / size[side % 2])));
      element.hidden = !box || part[0] >= part[2] || part[1] >= part[3];
      if (element.hidden) return;
      const [left, top, right, bottom] = part.map((one) => `${100 * one}%`);
      Object.assign(element.style, { left, top, width: `calc(${right} - ${left})`, height: `calc(${bottom} - ${top})` });
      element.setAttribute("aria-label", `Box ${n + 1}, ${this.faces.nameOf(n)}: from ${box[0]}, ${box[1]} to ${box[2]}, ${box[3]}`);
    });
    if (!this.pull) this.element.dataset.may = boxes.includes(null) ? "draw" : "";
  }

  // ---------------------------------------------------------------- the pointer

  // In pixels of the picture.
  pointOf(event) {
    const area = this.element.getBoundingClientRect();
    const part = [(event.clientX - area.left) / area.width, (event.clientY - area.top) / area.height];
    return part.map((one, side) => Math.max(0, Math.min(1, one)) * this.size[side]);
  }

  // {n, corner} of what lies under a pointer; `corner` is null inside of a box. The one that has the
  // focus lies on top.
  under(at, kind) {
    const boxes = this.faces.boxes();
    const order = [1, 0].sort((a, b) => this.isFocused(b) - this.isFocused(a)).filter((n) => boxes[n]);
    const scale = this.size[0] / this.element.clientWidth;
    for (const n of order) {
      const box = boxes[n];
      const inside = [0, 1].every((side) => at[side] >= box[side] && at[side] <= box[side + 2]);
      // Of a small box the middle is still there to move it.
      const sides = [0, 1].map((side) => (box[side + 2] - box[side]) / scale);
      const reach = Math.min(REACH[kind] ?? REACH.other, ...(inside ? sides.map((side) => SHARE * side) : []));
      const far = (corner) => Math.hypot(...[0, 1].map((side) => (at[side] - box[side + 2 * corner[side]]) / scale));
      const corner = [...CORNERS].sort((a, b) => far(a) - far(b))[0];
      if (far(corner) <= reach) return { n, corner };
      if (inside) return { n, corner: null };
    }
    return null;
  }

  isFocused(n) {
    return document.activeElement === this.boxes[n];
  }

  // {n, corner} of what a pull from there changes. While a box is missing it is drawn from anywhere
  // but a corner, since two faces may overlap.
  meant(at, kind) {
    const found = this.under(at, kind);
    const missing = this.faces.boxes().indexOf(null);
    return missing < 0 || found?.corner ? found : { n: missing, corner: null };
  }

  down(event) {
    this.kind = event.pointerType;
    if (!this.size || event.button !== 0 || !event.isPrimary || this.pull) return;
    if (this.larger && event.pointerType !== "mouse") return;
    event.preventDefault(); // nothing is selected, the picture is not dragged away
    const from = this.pointOf(event);
    const boxes = this.faces.boxes();
    const pressed = this.under(from, event.pointerType);
    const found = this.meant(from, event.pointerType);
    if (!found) return document.activeElement?.blur();
    this.element.setPointerCapture(event.pointerId);
    this.pull = { ...found, id: event.pointerId, from, start: [event.clientX, event.clientY], boxes, began: false };
    if (pressed) this.boxes[pressed.n].focus({ preventScroll: true });
    this.during = new AbortController();
    // Of the page: an element that left it hears of nothing.
    const listen = (kind, act) => addEventListener(kind, act, { capture: true, signal: this.during.signal });
    listen("keydown", (event) => this.stop(event));
    listen("pointerup", (event) => this.up(event));
    for (const kind of ["pointercancel", "lostpointercapture"]) listen(kind, (event) => this.isPulling(event) && this.let());
  }

  isPulling(event) {
    return this.pull?.id === event.pointerId;
  }

  move(event) {
    if (!this.size || (this.pull && !this.isPulling(event))) return;
    // Its end was not heard. A finger that moves is down, whatever the browser says of buttons.
    if (event.buttons === 0 && event.pointerType !== "touch") this.let();
    const at = this.pointOf(event);
    if (!this.pull) return this.hover(at, event.pointerType);
    const { n, start, boxes } = this.pull;
    this.pull.began ||= Math.hypot(event.clientX - start[0], event.clientY - start[1]) >= STARTS;
    if (!this.pull.began) return;
    const box = this.pulledTo(at);
    this.faces.hold(boxes.map((other, one) => (one === n ? box : other)));
    if (!boxes[n]) this.boxes[n].focus({ preventScroll: true });
  }

  pulledTo(at) {
    const { n, corner, from, boxes } = this.pull;
    const box = boxes[n];
    const least = this.faces.least(this.size);
    if (!box) return drawn(from, at, least, this.size);
    const by = [0, 1].map((side) => at[side] - from[side]);
    if (!corner) return moved(box, by, this.size);
    return pulled(box, corner, by.map((one, side) => one + box[side + 2 * corner[side]]), least, this.size);
  }

  hover(at, kind) {
    const found = this.meant(at, kind);
    const corner = found?.corner;
    const inside = found && (this.faces.boxes()[found.n] ? "move" : "draw");
    this.element.dataset.may = corner ? (corner[0] === corner[1] ? "nwse" : "nesw") : (inside ?? "");
  }

  up(event) {
    if (!this.isPulling(event)) return;
    if (!this.element.isConnected) return this.let();
    const { began } = this.pull;
    this.end();
    if (began) this.faces.settle(this.faces.boxes());
  }

  // Back to how it was.
  let() {
    if (!this.pull) return;
    this.end();
    this.faces.drop();
  }

  end() {
    this.pull = null;
    this.during.abort();
  }

  stop(event) {
    if (event.key !== "Escape") return;
    if (this.element.isConnected) {
      event.preventDefault();
      event.stopPropagation();
    }
    this.let();
  }

  // A pull ends where the picture, which is to be that of `path`, is another or was moved in the page.
  check(path) {
    if (this.pull && (path !== this.path || !this.element.hasPointerCapture(this.pull.id))) this.let();
  }

  // ---------------------------------------------------------------- the keyboard

  key(event, n) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.pull) return;
    const way = KEYS[event.key];
    const isAway = event.key === "Delete" || event.key === "Backspace";
    if (!way && !isAway) return;
    event.preventDefault();
    if (isAway) return this.remove(n);
    const boxes = this.faces.boxes();
    const by = way.map((sign, side) => sign * Math.max(1, Math.round(STEP * this.size[side])));
    const corner = boxes[n].slice(2).map((at, side) => at + by[side]);
    const now = event.shiftKey ? pulled(boxes[n], [1, 1], corner, this.faces.least(this.size), this.size) : moved(boxes[n], by, this.size);
    this.faces.settle(boxes.map((other, one) => (one === n ? now : other)));
  }
}

function still(path) {
  const element = h("img", { class: "faces-seen", src: urlOf(path), alt: "" });
  return { element, shown: settled(element, "load", () => [element.naturalWidth, element.naturalHeight]) };
}

// Its first picture. Some browsers show none unless they are sent to it.
function film(path) {
  const element = h("video", {
    class: "faces-seen", src: `${urlOf(path)}#t=0.001`, playsinline: true, preload: "auto", "aria-hidden": "true", tabindex: "-1",
  });
  element.muted = true;
  return { element, shown: settled(element, "loadedmetadata", () => [element.videoWidth, element.videoHeight]) };
}

// Resolves to its size, or to null if this browser cannot show it.
function settled(element, kind, size) {
  return new Promise((done) => {
    element.addEventListener(kind, () => done(size().every((side) => side > 0) ? size() : null));
    element.addEventListener("error", () => done(null));
  });
}
