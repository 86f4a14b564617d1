// The history drawer: everything that was made, found by its words, its model, its stars, its day.
import { get, part, post, remove } from "./api.js";
import { run } from "./commands.js";
import { button, h, setText } from "./dom.js";
import { bytes } from "./format.js";
import { modelName, sessionCard, TakeCard } from "./history_card.js";
import { EndlessList } from "./history_list.js";
import { openSession, show, store, subscribe } from "./store.js";
import { attempt, toast } from "./toasts.js";

const TYPING_MS = 150;
const FIRST_PAGE = 20; // a screenful, so that it is there at once
const PAGE = 60;
const SESSIONS = 500;
const BLANK = { search: "", model: "", stars: "0", since: "", until: "", here: false, view: "takes" };

// What was looked for stays while the page is open.
const wanted = { ...BLANK };

export const history = {
  name: "history",
  title: "History",
  build: (frame) => new History(frame),
};

class History {
  constructor(frame) {
    this.frame = frame;
    this.focus = h("input", {
      type: "search", class: "input history-search", placeholder: "Search prompts and notes", "aria-label": "Search prompts and notes",
      value: wanted.search, maxlength: 500, oninput: () => this.typed(),
    });
    this.status = h("p", { class: "history-status", role: "status" });
    this.fresh = button("Something new: show it", { text: true, class: "small", hidden: true, onclick: () => this.look() });
    this.nothing = h("div", { class: "history-nothing", hidden: true });
    this.sessions = h("div", { class: "history-list history-page", role: "list", "aria-label": "Sessions", hidden: true });
    this.foot = h("div", { class: "history-foot" }, h("span", { class: "muted" }, "Measuring the library…"));
    this.scroller = h("div", { class: "history-scroller" });
    this.list = new EndlessList({
      scroller: this.scroller, label: "Takes",
      read: (after) => this.read(after),
      card: (take) => new TakeCard(take, { open: (one) => this.open(one), remove: (one) => this.remove(one) }),
    });
    this.scroller.append(this.nothing, this.list.element, this.sessions, this.list.end);
    this.element = h("div", { class: "history" }, this.head(), this.scroller, this.foot);
    this.tools = [this.opener()];
    this.total = 0;
    this.turn = 0;
    this.look();
    this.readModels();
    this.readDisk();
    subscribe(this.element, () => this.follow());
  }

  closed() {
    this.list.stop();
    clearTimeout(this.timer);
  }

  // A button and not only a place to drop on: for the keyboard and the phone.
  opener() {
    const input = h("input", { type: "file", accept: ".mp4,.png,video/mp4,image/png", class: "visually-hidden", tabindex: "-1", "aria-hidden": "true" });
    input.addEventListener("change", () => {
      const [file] = input.files;
      input.value = "";
      if (file) run("openFile", file);
    });
    return h("span", {}, button("Open a result file", { text: true, class: "small", onclick: () => input.click() }), input);
  }

  head() {
    const field = (name, label, control) => {
      control.value = wanted[name];
      control.addEventListener("change", () => this.choose(name, control.value));
      control.id = `history-${name}`;
      return h("div", { class: "history-filter" }, h("label", { for: control.id }, label), control);
    };
    this.model = h("select", { class: "input" }, h("option", { value: "" }, "Any model"));
    const stars = h("select", { class: "input" }, h("option", { value: "0" }, "Any stars"), [1, 2, 3, 4, 5].map((n) => h("option", { value: String(n) }, "★".repeat(n))));
    this.here = h("input", { type: "checkbox", checked: wanted.here, onchange: () => this.choose("here", this.here.checked) });
    this.hereWords = h("span", {}, "Only this session");
    this.filters = h(
      "div", { class: "history-filters" },
      field("model", "Model", this.model),
      field("stars", "At least", stars),
      field("since", "From", h("input", { type: "date", class: "input" })),
      field("until", "Until", h("input", { type: "date", class: "input" })),
      h("label", { class: "history-here", hidden: !store.name }, this.here, this.hereWords),
    );
    const set = ["model", "stars", "since", "until", "here"].some((name) => wanted[name] !== BLANK[name]);
    // On a narrow screen the takes come first.
    this.more = h("details", { class: "history-more", open: set || matchMedia("(min-width: 721px)").matches }, h("summary", {}, "Filters"), this.filters);
    const views = ["takes", "sessions"].map((view) => button(view === "takes" ? "Takes" : "Sessions", {
      text: true, class: "small", "aria-pressed": String(wanted.view === view),
      onclick: () => {
        views.forEach((one, i) => one.setAttribute("aria-pressed", String(["takes", "sessions"][i] === view)));
        this.choose("view", view);
      },
    }));
    this.reset = button("Clear the filters", { text: true, class: "small quiet", hidden: true, onclick: () => this.clear() });
    return h(
      "div", { class: "history-head" },
      h("div", { class: "history-line" }, this.focus, h("div", { class: "history-views", role: "group", "aria-label": "What to list" }, views)),
      this.more,
      h("div", { class: "history-line" }, this.status, this.fresh, this.reset),
    );
  }

  // ---------------------------------------------------------------- what is looked for

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.choose("search", this.focus.value), TYPING_MS);
  }

  choose(name, value) {
    wanted[name] = value;
    this.look();
  }

  clear() {
    const { view } = wanted;
    Object.assign(wanted, BLANK, { view });
    this.focus.value = "";
    for (const control of this.filters.querySelectorAll("input, select")) {
      if (control.type === "checkbox") control.checked = false;
      else control.value = control.tagName === "SELECT" ? control.options[0].value : "";
    }
    this.look();
    this.focus.focus();
  }

  query(more) {
    const day = (text, days) => {
      const [y, m, d] = text.split("-").map(Number);
      return new Date(y, m - 1, d + days, 0, 0, 0, -days).toISOString();
    };
    const asked = {
      search: wanted.search.trim(),
      model: wanted.model,
      stars: wanted.stars === "0" ? "" : wanted.stars,
      since: wanted.since && day(wanted.since, 0),
      until: wanted.until && day(wanted.until, 1),
      session: wanted.here && store.name ? store.name : "",
      ...more,
    };
    return Object.entries(asked).filter(([, value]) => value).map(([name, value]) => `${name}=${part(value)}`).join("&");
  }

  async read(after) {
    const told = await get(`/api/history?${this.query({ limit: after ? PAGE : FIRST_PAGE, after })}`);
    return { items: told.takes, next: told.next, total: told.total };
  }

  async look() {
    const turn = (this.turn += 1);
    const takes = wanted.view === "takes";
    this.more.hidden = !takes;
    this.fresh.hidden = true;
    try {
      const told = takes ? await this.list.restart() : await get(`/api/sessions?search=${part(wanted.search.trim())}&limit=${SESSIONS}`);
      if (turn !== this.turn || !told) return;
      this.list.element.hidden = this.list.end.hidden = !takes;
      this.sessions.hidden = takes;
      if (!takes) this.sessions.replaceChildren(...told.map((one) => sessionCard(one, () => this.openSession(one.name))));
      this.tell(takes ? told.total : told.length);
      this.scroller.scrollTop = 0;
    } catch (error) {
      if (turn === this.turn) this.nothingHere("The history could not be read.", error.message);
    }
  }

  tell(total) {
    this.total = total;
    const noun = wanted.view === "takes" ? ["take", "takes"] : ["session", "sessions"];
    setText(this.status, `${total.toLocaleString()} ${noun[total === 1 ? 0 : 1]}`);
    const counts = wanted.view === "takes" ? ["search", "model", "stars", "since", "until", "here"] : ["search"];
    const narrowed = counts.some((name) => wanted[name] !== BLANK[name]);
    this.reset.hidden = !narrowed;
    if (total) this.nothing.hidden = true;
    else if (wanted.search.trim()) this.nothingHere(`Nothing found for “${wanted.search.trim()}”.`, "Whole words and beginnings of words are found, in prompts and in notes.");
    else if (narrowed) this.nothingHere("Nothing fits these filters.", "Take one of them back to see more.");
    else this.nothingHere("There is no take yet.", "Everything you make is kept here: with its seeds, its recipe and your notes.");
  }

  nothingHere(title, words) {
    this.nothing.replaceChildren(h("p", { class: "history-nothing-title", dir: "auto" }, title), h("p", { class: "muted" }, words));
    this.nothing.hidden = false;
  }

  // The list does not move under the hand; it says that there is more.
  async follow() {
    setText(this.hereWords, store.name ? `Only this session: ${store.name}` : "Only this session");
    const rev = store.state?.history_rev;
    if (this.rev === undefined) this.rev = rev;
    if (rev === this.rev || wanted.view !== "takes") return;
    this.rev = rev;
    const { turn } = this;
    const told = await get(`/api/history?${this.query({ limit: 1 })}`).catch(() => null);
    if (told && turn === this.turn) this.fresh.hidden = told.total === this.total;
  }

  async readModels() {
    const names = await get("/api/history/models").catch(() => []);
    if (wanted.model && !names.includes(wanted.model)) names.push(wanted.model);
    this.model.append(...names.map((name) => h("option", { value: name, title: name }, modelName(name))));
    this.model.value = wanted.model;
  }

  // ---------------------------------------------------------------- what is done with a take

  async open(take) {
    const opened = await attempt(() => openSession(take.session, { takes: [take.id] }).then(() => true));
    if (!opened) return;
    show([take.id]);
    this.frame.close();
  }

  async openSession(name) {
    if (await attempt(() => openSession(name).then(() => true))) this.frame.close();
  }

  async remove(take) {
    if ((await attempt(() => remove(`/api/takes/${take.id}`))) === undefined) return;
    const back = this.list.remove(take);
    this.tell(this.total - 1);
    this.readDisk();
    const undo = async () => {
      if ((await attempt(() => post(`/api/takes/${take.id}/restore`))) === undefined || !this.frame.live) return;
      back();
      this.tell(this.total + 1);
      this.readDisk();
    };
    toast("The take is in the trash.", { action: { name: "Undo", run: undo } });
  }

  // ---------------------------------------------------------------- the disk

  async readDisk() {
    const [disk, trash] = await Promise.all([get("/api/disk"), get("/api/trash")]).catch(() => []);
    if (!disk) return;
    const { segments = 0, takes = 0, inputs = 0 } = disk.bytes;
    const words = h(
      "span", { title: `Segments ${bytes(segments)}, results ${bytes(takes)}, encoder outputs and inputs ${bytes(inputs)}` },
      `Library ${bytes(segments + takes + inputs)} · ${bytes(disk.free)} free`,
    );
    this.foot.replaceChildren(words, h("span", { class: "history-trash" }, trash.takes ? this.trash(trash) : h("span", { class: "muted" }, "The trash is empty")));
  }

  trash(trash) {
    const what = `${trash.takes === 1 ? "1 take" : `${trash.takes.toLocaleString()} takes`} in the trash, ${bytes(trash.bytes)}`;
    const empty = button("Empty trash…", { text: true, class: "small", onclick: () => this.confirm(trash) });
    return [h("span", {}, what), empty];
  }

  confirm(trash) {
    const what = trash.takes === 1 ? "1 take" : `${trash.takes.toLocaleString()} takes`;
    const yes = button("Delete for good", { text: true, class: "small history-danger", onclick: () => this.empty() });
    const no = button("Keep", { text: true, class: "small", onclick: () => this.readDisk().then(() => this.foot.querySelector("button")?.focus()) });
    const words = `${what} (${bytes(trash.bytes)}) will be gone for good.`;
    this.foot.replaceChildren(h("span", { class: "history-confirm", role: "alert" }, words), h("span", { class: "history-trash" }, no, yes));
    no.focus();
  }

  async empty() {
    const told = await attempt(() => remove("/api/trash"));
    if (told) toast(`The trash is empty: ${bytes(told.bytes)} came free.`);
    await this.readDisk();
    this.focus.focus();
  }
}
