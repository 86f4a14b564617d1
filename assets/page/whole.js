// Whole takes, with recipes and skip maps: each is read once, since a take never changes.
import { get } from "./api.js";
import { changed } from "./store.js";

const AGAIN_MS = 5000;
const takes = new Map(); // id -> {take: the whole one, or null; failed; done: a promise of its end}

export function wholeTake(id) {
  const found = takes.get(id);
  if (found) return found;
  const one = { take: null, failed: false };
  takes.set(id, one);
  one.done = get(`/api/takes/${id}`).then((take) => {
    one.take = take;
    changed();
  });
  one.done.catch(() => {
    one.failed = true;
    setTimeout(() => takes.get(id) === one && takes.delete(id), AGAIN_MS);
  });
  return one;
}

// Reads it now, if it could not be read before.
export function wholeTakeAgain(id) {
  if (takes.get(id)?.failed) takes.delete(id);
  return wholeTake(id);
}
