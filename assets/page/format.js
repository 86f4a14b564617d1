// Numbers as people read them.

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 1) return "under 1 s";
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  const rest = whole % 60;
  if (minutes < 60) return `${minutes} min ${String(rest).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

// A time that is only expected.
export const roughly = (value) => (value < 1 ? seconds(value) : `about ${seconds(value)}`);

export function bytes(value) {
  if (value === null || value === undefined) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (value >= 1000 && i < units.length - 1) {
    value /= 1000;
    i += 1;
  }
  return `${value >= 100 || i === 0 ? Math.round(value) : value.toFixed(1)} ${units[i]}`;
}

// Segments from 0 as words from 1: "3" or "3–4".
export function range(first, end) {
  return end - first === 1 ? `${first + 1}` : `${first + 1}–${end}`;
}

export function clock(time, fps) {
  const frame = Math.round(time * fps);
  const whole = Math.floor(time + 1e-6);
  const minutes = Math.floor(whole / 60);
  return `${minutes}:${String(whole % 60).padStart(2, "0")} · ${frame}`;
}

export function ago(iso) {
  const then = new Date(iso);
  const passed = (Date.now() - then) / 1000;
  if (passed < 60) return "just now";
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  return then.toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}
