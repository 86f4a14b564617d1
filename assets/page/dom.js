// Making elements. Text becomes text nodes, never markup.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "style") Object.assign(element.style, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-") && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Makes the children of `parent` these, in this order, touching only what differs: focus, scroll
// and running videos of elements that stay are left alone.
export function arrange(parent, children) {
  const wanted = children.filter(Boolean);
  for (const child of [...parent.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((child, i) => {
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
  });
}

// Sets what differs and nothing else, so that screen readers are not told the same twice.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const PATHS = {
  play: "M5 3.5v9l7-4.5z",
  pause: "M5 3h2v10H5zM9 3h2v10H9z",
  close: "M4 4l8 8M12 4l-8 8",
  back: "M10.5 3.5L6 8l4.5 4.5M3.5 3.5v9",
  forth: "M5.5 3.5L10 8l-4.5 4.5M12.5 3.5v9",
  sound: "M2.5 6v4H5l3.5 3V3L5 6zM11 5.8a3 3 0 0 1 0 4.4M12.8 4a5.6 5.6 0 0 1 0 8",
  mute: "M2.5 6v4H5l3.5 3V3L5 6zM11 6.2l3.5 3.6M14.5 6.2L11 9.8",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  lock: "M5 7V5a3 3 0 0 1 6 0v2M4 7h8v6H4z",
  unlock: "M5 7V5a3 3 0 0 1 5.8-1M4 7h8v6H4z",
  dice: "M3 3h10v10H3zM6 6h.01M10 10h.01M10 6h.01M6 10h.01",
  star: "M8 2l1.8 3.8 4.2.6-3 3 .7 4.1L8 11.6 4.3 13.5 5 9.4l-3-3 4.2-.6z",
  undo: "M4 6h6a3 3 0 0 1 0 6H6M4 6l2.5-2.5M4 6l2.5 2.5",
  up: "M8 12V4M4.5 7.5L8 4l3.5 3.5",
  down: "M8 4v8M4.5 8.5L8 12l3.5-3.5",
  plus: "M8 3v10M3 8h10",
  history: "M8 4v4l2.5 1.5M2.5 8a5.5 5.5 0 1 0 1.7-4M2.5 3v2.5H5",
  models: "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7",
  bell: "M4 11V7a4 4 0 0 1 8 0v4l1 1H3zM7 14h2",
  download: "M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10",
  loop: "M3 7a4 4 0 0 1 4-4h4M11 3L9 1M11 3L9 5M13 9a4 4 0 0 1-4 4H5M5 13l2 2M5 13l2-2",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.6 9h5.8l.6-9",
  fork: "M5 3v10M5 9c4 0 6-1.5 6-5M11 4l-1.5 1.5M11 4l1.5 1.5",
  keyboard: "M2 4h12v8H2zM4.5 6.5h.01M7 6.5h.01M9.5 6.5h.01M12 6.5h.01M5 9.5h6",
};

// A line icon, 16 px; hidden from screen readers: the button around it has the name.
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  path.setAttribute("fill", name === "play" || name === "pause" ? "currentColor" : "none");
  path.setAttribute("stroke", "currentColor");
  path.setAttribute("stroke-width", "1.5");
  path.setAttribute("stroke-linecap", "round");
  path.setAttribute("stroke-linejoin", "round");
  svg.append(path);
  return svg;
}

// A button with an icon and a name; with `text` the name is shown, else it is its tooltip too.
export function button(name, { icon: picture, text = false, class: kind = "", ...props } = {}) {
  const inside = [picture ? icon(picture) : null, text || !picture ? name : null];
  const shown = text || !picture;
  return h(
    "button",
    {
      type: "button",
      class: `btn ${shown ? "" : "icon"} ${kind}`,
      "aria-label": shown ? null : name,
      title: shown ? null : name,
      ...props,
    },
    ...inside,
  );
}
