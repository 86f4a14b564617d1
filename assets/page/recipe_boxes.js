// The boxes of two persons in a picture: [x0, y0, x1, y1] in its pixels, whole numbers, the last two
// outside. One that is still missing is null. A size is [width, height].

const WHERE = 4; // numbers
const INSET = 0.05; // of a half, as the studio has it where no boxes are given

// From the text of the recipe, `x0,y0,x1,y1;x0,y0,x1,y1`. What is no box counts as missing.
export function read(text) {
  const parts = text.split(";");
  return [0, 1].map((n) => readOne(parts[n] ?? ""));
}

function readOne(text) {
  const numbers = text.split(",").map((part) => (part.trim() === "" ? NaN : Math.trunc(Number(part))));
  const [x0, y0, x1, y1] = numbers;
  const right = numbers.length === WHERE && numbers.every(Number.isFinite) && x0 < x1 && y0 < y1;
  return right ? numbers : null;
}

// A missing first box keeps its place, so that the second stays the second.
export function write([first, second]) {
  if (!second) return first ? first.join(",") : "";
  return `${first?.join(",") ?? ""};${second.join(",")}`;
}

// The text with these boxes; what they leave as it was stays as it is written, even if it is no box.
export function rewritten(text, boxes) {
  const parts = text.split(";");
  boxes.forEach((box, n) => {
    if (String(readOne(parts[n] ?? "")) !== String(box)) parts[n] = box?.join(",") ?? "";
  });
  for (let n = 0; n < parts.length; n++) parts[n] ??= "";
  while (parts.length && !parts.at(-1).trim()) parts.pop();
  return parts.join(";");
}

export const isWithin = ([x0, y0, x1, y1], [width, height]) => x0 >= 0 && y0 >= 0 && x1 <= width && y1 <= height;

const within = (value, low, high) => Math.max(low, Math.min(high, value));

export function moved([x0, y0, x1, y1], [dx, dy], [width, height]) {
  const x = within(x0 + Math.round(dx), 0, Math.max(0, width - (x1 - x0)));
  const y = within(y0 + Math.round(dy), 0, Math.max(0, height - (y1 - y0)));
  return [x, y, x + x1 - x0, y + y1 - y0];
}

// With the corner, [0 or 1, 0 or 1] for left or right, top or bottom, pulled to a point.
export function pulled(box, corner, to, least, size) {
  const found = [...box];
  for (const side of [0, 1]) {
    const at = Math.round(to[side]);
    const [low, high] = [box[side], box[side + 2]];
    if (corner[side]) found[side + 2] = Math.min(size[side], Math.max(at, low + least));
    else found[side] = Math.max(0, Math.min(at, high - least));
  }
  return found;
}

// Drawn from one point to another.
export function drawn(from, to, least, size) {
  const [x, y] = [0, 1].map((side) => stretch(from[side], to[side], least, size[side]));
  return [x[0], y[0], x[1], y[1]];
}

function stretch(from, to, least, most) {
  const length = Math.max(Math.round(Math.abs(to - from)), least);
  const low = within(Math.round(to < from ? from - length : from), 0, most - length);
  return [low, low + length];
}

// For whoever cannot point: most of the left or the right half.
export function half(n, [width, height]) {
  const side = Math.floor(width / 2);
  const [left, right] = [INSET, 1 - INSET].map((part) => n * side + Math.floor(side * part));
  return [left, Math.floor(height * INSET), right, Math.floor(height * (1 - INSET))];
}

// The least side of a box, in pixels of the picture: one that is smaller may fall in between the
// places at which the model looks, one every `unit` pixels of a video of the size `video`.
export function leastSide(size, video, unit) {
  // Of the areas, since the proportions that the video gets are the studio's to say.
  const scale = Math.sqrt((video[0] * video[1]) / (size[0] * size[1]));
  const least = Math.ceil(unit / scale);
  return Number.isFinite(least) ? within(least, 1, Math.min(...size)) : 1;
}
