// One row of tiles. Tiles stay the same elements from draw to draw, so that focus and scroll hold.
import { arrange, button, h, icon, setText } from "./dom.js";
import { posterOf } from "./api.js";

export class Row {
  constructor(side) {
    this.list = h("ol", { class: "timeline-list" });
    this.mark = h("span", { class: `timeline-side side-${side}`, "aria-hidden": "true" }, side.toUpperCase());
    this.element = h("div", { class: `timeline-row row-${side}` }, this.mark, this.list);
    this.name = side === "a" ? "Segments" : "Segments of the other take";
    this.place = side === "a" ? "data-index" : "data-other-index";
    this.tiles = new Map();
  }

  draw(row) {
    if (!row) return;
    this.list.setAttribute("aria-label", this.name);
    if (this.list.dataset.take !== row.take) this.tiles.clear();
    this.list.dataset.take = row.take;
    const chosen = row.tiles.find((tile) => tile.selected)?.index ?? 0;
    const elements = row.tiles.map((tile) => {
      let element = this.tiles.get(tile.index);
      if (!element) this.tiles.set(tile.index, (element = new Tile(this.place)));
      element.draw(tile, row, tile.index === chosen);
      return element.element;
    });
    arrange(this.list, elements);
  }
}

class Tile {
  constructor(place) {
    this.place = place;
    this.poster = h("img", { class: "tile-poster", alt: "", draggable: false, hidden: true });
    this.film = h("span", { class: "tile-film" }, this.poster);
    this.number = h("span", { class: "tile-number" });
    this.badge = h("span", { class: "tile-badge" });
    this.seed = h("span", { class: "tile-seed seed" });
    this.bar = h("span", { class: "tile-bar" });
    this.flag = h("span", { class: "tile-flag", hidden: true }, "new recipe");
    this.face = h(
      "button",
      { type: "button", class: "tile-face" },
      this.film, this.number, this.badge, this.flag, this.seed, this.bar,
    );
    this.lock = h("button", { type: "button", class: "tile-lock", hidden: true });
    this.element = h("li", { class: "tile" }, this.face, this.lock);
    this.face.addEventListener("click", () => this.row.select?.(this.tile.index));
    this.face.addEventListener("dblclick", () => this.row.retake?.(this.tile.index));
    this.lock.addEventListener("click", () => this.row.lock(this.isLocked ? this.tile.index : this.tile.index + 1));
  }

  draw(tile, row, reachable) {
    this.tile = tile;
    this.row = row;
    const { element, face } = this;
    element.setAttribute(this.place, tile.index);
    element.dataset.place = tile.index;
    element.className = `tile kind-${tile.kind}`;
    element.style.flexGrow = tile.frames;
    face.disabled = !row.select;
    face.tabIndex = reachable ? 0 : -1;
    face.setAttribute("aria-pressed", tile.selected);
    face.setAttribute("aria-label", this.words(tile));
    face.title = tile.change ? `From here on: ${tile.change}` : "";
    setText(this.number, tile.index + 1);
    setText(this.badge, tile.badge ?? "");
    setText(this.seed, tile.seed);
    this.flag.hidden = !tile.change;
    this.bar.style.transform = `scaleX(${tile.part ?? 0})`;
    this.picture(tile);
    this.isLocked = tile.index < row.locked;
    this.lock.hidden = !row.lock;
    if (row.lock) this.drawLock(tile, reachable);
  }

  drawLock(tile, reachable) {
    this.lock.tabIndex = reachable ? 0 : -1;
    this.lock.setAttribute("aria-pressed", this.isLocked);
    const name = `${this.isLocked ? "Unlock" : "Lock"} segment ${tile.index + 1}`;
    if (this.lock.getAttribute("aria-label") === name) return;
    this.lock.setAttribute("aria-label", name);
    this.lock.title = this.isLocked ? "Locked: it is kept. Click to unlock." : "Lock: keep everything up to here";
    this.lock.replaceChildren(icon(this.isLocked ? "lock" : "unlock"));
  }

  picture(tile) {
    const source = tile.poster ? posterOf(tile.poster) : tile.preview;
    if (this.source === source) return;
    this.source = source;
    this.poster.classList.toggle("is-preview", !tile.poster);
    if (!source) {
      this.poster.hidden = true;
      this.film.style.backgroundImage = "";
      return;
    }
    // The old picture stays until the new one is there; a preview that is gone leaves it as it was.
    const next = new Image();
    next.onload = () => {
      if (this.source !== source) return;
      this.poster.src = source;
      this.poster.hidden = false;
      // A long tile shows its picture again and again, like a strip of film.
      this.film.style.backgroundImage = `url("${source}")`;
    };
    next.src = source;
  }

  words(tile) {
    const length = (tile.frames / tile.fps).toFixed(1);
    const parts = [`Segment ${tile.index + 1}`, `seed ${tile.seed}`];
    if (tile.frames > 1) parts.push(`${length} seconds`);
    if (tile.badge) parts.push(tile.badge);
    if (tile.change) parts.push("the recipe changes here");
    return parts.join(", ");
  }
}
