// Two drafts that grew apart: what was changed here wins, all else is as it was saved last.

const MAPS = ["recipe", "files"]; // merged key by key

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function flat(base, mine, theirs) {
  const names = new Set([...Object.keys(mine), ...Object.keys(theirs)]);
  const chosen = [...names].map((name) => [name, same(mine[name], base[name]) ? theirs[name] : mine[name]]);
  return structuredClone(Object.fromEntries(chosen.filter(([, value]) => value !== undefined)));
}

// `base` is the draft that `mine` was made from, `theirs` the one that was saved since.
export function merged(base, mine, theirs) {
  const whole = flat(base, mine, theirs);
  for (const name of MAPS) whole[name] = flat(base[name], mine[name], theirs[name]);
  return whole;
}
