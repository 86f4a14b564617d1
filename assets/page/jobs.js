// The top bar: what runs, how far it is, what waits; and the ways to history, models and keys.
import { post } from "./api.js";
import { run } from "./commands.js";
import { arrange, button, h, setText } from "./dom.js";
import { bytes, seconds } from "./format.js";
import { toggleScheme } from "./scheme.js";
import { baseline, changed, on, openSession, poll, ready, refresh, show, store, subscribe, takeOf } from "./store.js";
import { attempt, toast } from "./toasts.js";

const NOTIFY = "retake.notify";
const STAGES = { load: "loading the model", encode: "encoding the prompt", join: "joining", reused: "reading from disk" };

export function mount(element) {
  const words = h("span", { class: "jobs-words" });
  const bar = h("div", { class: "jobs-bar", role: "progressbar", "aria-label": "Progress of the running job", "aria-valuemin": 0, "aria-valuemax": 100 }, h("span"));
  const cancel = button("Cancel", { text: true, class: "small", onclick: () => stop(drawn) });
  const waiting = h("button", { type: "button", class: "btn small quiet", "aria-expanded": "false", onclick: () => toggleQueue() });
  const queue = h("ol", { class: "jobs-queue panel", "aria-label": "Queue", hidden: true });
  const memory = h("span", { class: "jobs-memory muted" });
  const notify = button("Tell me when it is done", { icon: "bell", class: "quiet", "aria-pressed": "false", onclick: toggleNotify });
  const scheme = button("Light or dark", { icon: "sun", class: "quiet", onclick: toggleScheme });
  const strip = h("div", { class: "jobs-strip" });
  element.append(
    h("header", { class: "jobs-top" },
      h("h1", { class: "jobs-name" }, "Retake"),
      strip,
      memory,
      h("nav", { class: "jobs-ways", "aria-label": "Studio" },
        button("History", { icon: "history", text: true, class: "quiet", onclick: () => run("openHistory") }),
        button("Models", { icon: "models", text: true, class: "quiet", onclick: () => run("openModels") }),
        button("Keys", { icon: "keyboard", class: "quiet", onclick: () => run("openKeys") }),
        notify, scheme),
      queue),
  );
  const items = new Map();
  let drawn = null; // the job that the bar shows

  function toggleQueue(open = queue.hidden) {
    queue.hidden = !open;
    waiting.setAttribute("aria-expanded", open);
  }
  document.addEventListener("click", (event) => {
    if (!queue.hidden && !queue.contains(event.target) && !waiting.contains(event.target)) toggleQueue(false);
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || queue.hidden) return;
    event.preventDefault();
    toggleQueue(false);
    waiting.focus();
  });

  function draw() {
    const { state, away } = store;
    const jobs = state?.jobs ?? [];
    const job = (drawn = jobs[0] ?? null);
    const rest = jobs.slice(1);
    if (!rest.length) toggleQueue(false);
    setText(words, away ? "The studio does not answer. Trying again…" : job ? tell(job) : "");
    words.classList.toggle("bad", away);
    const part = job ? fraction(job) : 0;
    bar.firstChild.style.transform = `scaleX(${part})`;
    bar.setAttribute("aria-valuenow", Math.round(100 * part));
    setText(waiting, `${rest.length} waiting`);
    cancel.disabled = Boolean(job?.stopping);
    arrange(strip, away ? [words] : job ? [words, bar, cancel, rest.length ? waiting : null] : []);
    arrange(queue, rest.map((one, i) => item(items, one, i, rest)));
    drawMemory(memory, state?.server.memory);
    notify.setAttribute("aria-pressed", localStorage.getItem(NOTIFY) === "yes");
    document.title = job ? `${Math.round(100 * part)} % · Retake` : "Retake";
  }

  on("ended", ended);
  on("back", refresh);
  ready.then(() => subscribe(element, draw));
}

function tell(job) {
  const at = job.progress;
  const mine = job.session === store.name ? "" : `${job.session}: `;
  if (job.state !== "running" || !at.segments) return `${mine}starting`;
  const left = at.eta_seconds ? ` · ${seconds(at.eta_seconds)} left` : "";
  const where = `${mine}segment ${at.segment + 1} of ${at.segments}`;
  return `${where} · ${at.step ? `step ${at.step} of ${at.steps}` : (STAGES[at.stage] ?? "starting")}${left}`;
}

function fraction(job) {
  const at = job.progress;
  if (!at.segments) return 0;
  const done = Math.max(at.done?.length ?? 0, 0);
  const inside = at.stage === "denoise" && at.steps ? at.step / at.steps : 0;
  return Math.min(1, (done + inside) / at.segments);
}

async function stop(job) {
  if (!job) return;
  job.stopping = true;
  changed();
  await attempt(() => post(`/api/jobs/${job.id}/cancel`));
  await poll();
}

async function leave(job) {
  store.state.jobs = store.state.jobs.filter((other) => other.id !== job.id);
  changed();
  await attempt(() => post(`/api/jobs/${job.id}/cancel`));
  await poll();
}

// One waiting job: what it is, up, down, out of the queue.
function item(items, job, i, rest) {
  let one = items.get(job.id);
  if (!one) {
    const words = h("span", { class: "queue-words" });
    const move = (by) => {
      const before = by < 0 ? one.rest[one.place - 1].id : (one.rest[one.place + 2]?.id ?? null);
      // The page changes at once; the studio is told, and what it says afterwards counts.
      const { jobs } = store.state;
      const at = jobs.findIndex((other) => other.id === job.id);
      jobs.splice(at + by, 0, ...jobs.splice(at, 1));
      changed();
      return attempt(() => post(`/api/jobs/${job.id}/move`, { before })).then(poll);
    };
    const up = button("Earlier", { icon: "up", class: "small quiet", onclick: () => move(-1) });
    const down = button("Later", { icon: "down", class: "small quiet", onclick: () => move(1) });
    const out = button("Take out of the queue", { icon: "close", class: "small quiet", onclick: () => leave(job) });
    one = { element: h("li", {}, words, up, down, out), words, up, down };
    items.set(job.id, one);
  }
  const kind = job.kind === "retake" ? `from segment ${job.keep + 1}` : "from the start";
  const seeds = [...new Set(job.seeds.slice(job.keep))];
  setText(one.words, `${kind}, seed ${seeds.slice(0, 2).join(", ")} · ${job.session}`);
  Object.assign(one, { rest, place: i });
  one.up.disabled = i === 0;
  one.down.disabled = i === rest.length - 1;
  return one.element;
}

function drawMemory(element, memory) {
  if (!memory) return;
  const gpu = memory.gpu_total ? `GPU ${bytes(memory.gpu_used)} of ${bytes(memory.gpu_total)} · ` : "";
  setText(element, `${gpu}${bytes(memory.used)} of ${bytes(memory.total)}`);
  element.title = "Memory in use";
}

// ---------------------------------------------------------------- when a job has ended

async function ended(job) {
  tellOutside(job);
  if (job.session !== store.name) {
    if (job.state === "done") {
      toast(`A take of ${job.session} is done.`, { action: { name: "Open", run: () => openSession(job.session, { takes: [job.take] }) } });
    }
    return;
  }
  // The stage tells why a job of its session failed.
  await refresh();
  openNew(job);
}

// A|B at the point where the two part; several of one order in a grid, when the last has ended.
function openNew(job) {
  const batch = store.batches.find((one) => one.jobs.includes(job.id));
  const done = job.state === "done" ? [job.take] : [];
  if (batch) {
    batch.takes.push(...done);
    if (store.state.jobs.some((one) => batch.jobs.includes(one.id))) return;
    store.batches.splice(store.batches.indexOf(batch), 1);
  }
  const made = [...new Set(batch?.takes ?? done)].filter((id) => takeOf(id));
  if (!made.length) return;
  if (made.length > 1) return show(made.slice(0, 4));
  const base = baseline();
  const take = takeOf(made[0]);
  const fits = base && base.id !== take.id && base.width === take.width && base.height === take.height;
  show(fits ? [base.id, take.id] : [take.id]);
}

function tellOutside(job) {
  if (localStorage.getItem(NOTIFY) !== "yes" || !document.hidden || window.Notification?.permission !== "granted") return;
  const words = { done: "A take is done.", failed: job.told, cancelled: "Cancelled." };
  new Notification("Retake", { body: words[job.state], tag: `retake-${job.id}` });
}

async function toggleNotify() {
  if (localStorage.getItem(NOTIFY) === "yes") localStorage.removeItem(NOTIFY);
  else if (!("Notification" in window)) toast("This browser has no notifications.", { bad: true });
  else if ((await Notification.requestPermission()) === "granted") {
    localStorage.setItem(NOTIFY, "yes");
    toast("You will be told when a take is done while this tab is in the background.");
  } else toast("The browser does not allow notifications for this page.", { bad: true });
  changed();
}
