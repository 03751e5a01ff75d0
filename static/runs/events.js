// The list of a run's events and the inspector beside it. The server filters and pages. This script appends rows without
// moving those on the screen, picks events by key, and copies paths and links.
import { span } from "../shell/times.js";

const ROWS_MAX = 1000; // Rows that a page keeps; links lead to earlier ones.
const END_PX = 24;

const box = () => document.getElementById("events-scroll");
const body = () => document.getElementById("events-rows");

let reading = false; // True if the reader was in the middle of the list when rows arrived.
let unseen = 0;
let over = false; // True if new rows were left out, because the page is full and the reader is in the middle.

export function startEvents() {
  document.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("pointerover", (event) => offerPath(event.target.closest?.(".jt li")));
  document.addEventListener("focusin", (event) => offerPath(event.target.closest?.(".jt summary")?.closest("li")));
  document.getElementById("events-filter")?.addEventListener("change", (event) => event.target.form.requestSubmit());
  if (!box()) return;
  box().addEventListener("scroll", () => atEnd() && seen(), { passive: true });
  const picked = document.querySelector("#inspector [data-shown]")?.dataset.shown;
  const row = picked && rowOf(picked);
  if (row) {
    row.querySelector("a.seq").setAttribute("aria-current", "true");
    box().scrollTop = row.offsetTop - box().clientHeight / 2;
  } else if (document.getElementById("tail")) {
    box().scrollTop = box().scrollHeight;
  }
}

const rowOf = (seq) => document.querySelector(`#events-rows tr[data-seq="${CSS.escape(seq)}"]`);

// -- rows as they come -------------------------------------------------------------------------------------------------

export function beforeRows() {
  reading = !atEnd();
}

/** After a frame was swapped in: `after` is the seq that the page had before, `seq` the one that it has now. */
export function afterRows(after, seq) {
  const rows = body();
  if (rows) appended(rows, after);
  tell("n-events", seq);
  tell("events-all", seq);
  if (box()) tell("events-shown", rows.querySelectorAll("tr[data-seq]").length);
  tell("n-protections", Number(document.getElementById("panel-head")?.dataset.fired ?? 0));
}

function tell(name, number) {
  const place = document.getElementById(name);
  if (!place) return;
  place.textContent = number.toLocaleString("en");
  place.hidden = !number;
}

function appended(rows, after) {
  if (!box()) {
    rows.replaceChildren(); // A view without the list: the frames only have somewhere to go.
    return;
  }
  let added = 0;
  let above = null;
  for (const row of freshRows(rows, after)) {
    above ??= row.previousElementSibling;
    if (!wanted(rows, row)) {
      added += rows.dataset.density === "raw" ? count(row) : 0;
      row.remove();
    } else if (reading && rows.rows.length > ROWS_MAX) {
      over = true;
      added += count(row);
      row.remove();
    } else {
      added += count(row);
      spaced(row, above);
      const link = row.querySelector("a.seq");
      link?.setAttribute("href", link.getAttribute("href") + rows.dataset.query);
      marked(row);
      if (row.dataset.first) kept(row.querySelector("a"));
      above = row;
    }
  }
  if (!added) return;
  document.getElementById("events-none")?.setAttribute("hidden", "");
  if (reading || rows.dataset.density === "raw") {
    unseen += added;
    say();
    return;
  }
  trim(rows);
  box().scrollTop = box().scrollHeight;
}

function freshRows(rows, after) {
  const fresh = [];
  for (let row = rows.lastElementChild; row && Number(row.dataset.seq ?? row.dataset.first ?? 0) > after; row = row.previousElementSibling) fresh.push(row);
  return fresh.reverse();
}

const count = (row) => (row.dataset.first ? Number(row.dataset.last) - Number(row.dataset.first) + 1 : 1);

// The server's rule, for rows that it renders once for all readers.
function wanted(rows, row) {
  const only = rows.dataset;
  if (only.density === "raw") return false;
  if (row.dataset.first) return true; // A link to many; some of them may match.
  const text = only.onlyText.toLowerCase().split(/\s+/).filter(Boolean).join(" ");
  const said = `${row.querySelector(".k")?.textContent} ${row.querySelector(".sum")?.textContent}`.toLowerCase();
  return (
    (only.density !== "compact" || only.onlyKind || "onlyFailed" in only || Number(row.dataset.weight) > 1) &&
    (!("onlyFailed" in only) || "failed" in row.dataset) &&
    (!only.onlyStage || row.dataset.stage === only.onlyStage) &&
    (!only.onlyAgent || row.dataset.agent === only.onlyAgent) &&
    (!only.onlyKind || row.dataset.kind === only.onlyKind) &&
    (!text || said.includes(text))
  );
}

// A link to many events is the same for all readers; add this list's density and filter.
function kept(link) {
  const form = document.getElementById("events-filter");
  if (!link || !form) return;
  const address = new URL(link.href);
  for (const [name, value] of new FormData(form)) if (value) address.searchParams.set(name, value);
  address.hash = "events";
  link.href = address.href;
  link.closest("td").colSpan = 7;
}

// Mark where reading should begin, by the server's rule for new rows.
function marked(row) {
  const list = document.querySelector("#landmarks ol");
  if (!list || (row.dataset.kind !== "stage_entered" && !(Number(row.dataset.weight) > 2))) return;
  const item = document.createElement("li");
  if (row.dataset.tone) item.dataset.tone = row.dataset.tone;
  const link = row.querySelector("a.seq").cloneNode();
  link.removeAttribute("class");
  const [label, said, seq] = ["b", "span", "code"].map((name) => document.createElement(name));
  label.textContent = row.querySelector(".k").textContent;
  said.append(label, ` ${row.querySelector(".sum").textContent}`);
  seq.className = "muted";
  seq.textContent = row.dataset.seq;
  link.append(row.querySelector(".k svg").cloneNode(true), said, seq);
  item.append(link);
  list.append(item);
  while (list.children.length > Number(list.parentElement.dataset.most)) list.firstElementChild.remove();
  for (const [at, other] of [...list.querySelectorAll("a")].entries()) {
    delete other.dataset.press;
    if (!at) other.dataset.press = "stage-next";
    else if (at === list.children.length - 1) other.dataset.press = "stage-previous";
  }
  list.parentElement.hidden = false;
  list.parentElement.nextElementSibling?.matches(".state") && list.parentElement.nextElementSibling.remove();
  window.htmx?.process(item);
}

// Show the time since the row above, if both rows are in the list.
function spaced(row, above) {
  const cell = row.querySelector(".delta");
  const seconds = above?.dataset.at ? (Number(row.dataset.at) - Number(above.dataset.at)) / 1e6 : NaN;
  if (cell && seconds >= 0) cell.textContent = spanned(seconds);
}

function spanned(seconds) {
  if (seconds < 0.9995) return `${(seconds * 1e3).toFixed(seconds >= 0.00005 && seconds < 0.00995 ? 1 : 0)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  return span(Math.round(seconds));
}

function atEnd() {
  const list = box();
  return !list || list.scrollHeight - list.clientHeight - list.scrollTop < END_PX;
}

function trim(rows) {
  if (rows.rows.length <= ROWS_MAX) return;
  while (rows.rows.length > ROWS_MAX) rows.deleteRow(0);
  const first = rows.querySelector("tr[data-seq]");
  const earlier = document.getElementById("events-earlier");
  if (!first || !earlier) return;
  const link = earlier.querySelector("a");
  const address = new URL(link.href);
  address.searchParams.set("before", first.dataset.seq);
  link.href = address.href;
  earlier.hidden = false;
}

function say() {
  const bar = document.getElementById("events-new");
  if (!bar) return;
  bar.querySelector("[data-count]").textContent = unseen.toLocaleString("en");
  bar.hidden = false;
}

function seen() {
  if (over || body().dataset.density === "raw") return; // The link leads to the rows that were left out.
  unseen = 0;
  const bar = document.getElementById("events-new");
  if (bar) bar.hidden = true;
}

// -- clicks ------------------------------------------------------------------------------------------------------------

function onClick(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const target = event.target;
  if (!target.closest) return;
  const bar = target.closest("#events-new a");
  const link = target.closest("[data-copy-link]");
  const from = target.closest("[data-copy-from]");
  const path = target.closest(".jt-path");
  if (bar && !over && body().dataset.density !== "raw") {
    event.preventDefault();
    box().scrollTop = box().scrollHeight;
    box().focus({ preventScroll: true });
    seen();
  } else if (bar && bar.href.split("#")[0] === location.href.split("#")[0]) {
    event.preventDefault();  // An address that differs in its fragment alone would load nothing.
    location.reload();
  } else if (link) {
    if (copy(link, new URL(link.href).href)) event.preventDefault();
  } else if (from) {
    copy(from, document.getElementById(from.dataset.copyFrom).textContent);
  } else if (path) {
    event.preventDefault();
    copy(path, path.dataset.path);
  } else if (target.closest("#events-rows tr[data-seq]") && !target.closest("a, button") && !getSelection().toString()) {
    target.closest("tr").querySelector("a.seq").click();
  }
}

function copy(button, text) {
  if (!navigator.clipboard) return false;
  navigator.clipboard.writeText(text).then(
    () => said(button, "Copied"),
    () => said(button, "Not copied: the browser did not allow it"),
  );
  return true;
}

function said(button, word) {
  const place = document.getElementById("spoken");
  if (place) place.textContent = word;
  button.dataset.said = word;
  setTimeout(() => delete button.dataset.said, 1500);
}

// One button serves all nodes of a tree; it moves to the node in use.
function offerPath(item) {
  if (!item || item.classList.contains("jt-more")) return;
  const path = pathOf(item);
  let button = document.querySelector(".jt-path");
  if (button?.parentElement === item) return;
  if (!button) {
    button = document.createElement("button");
    button.type = "button";
    button.className = "jt-path";
    button.textContent = "copy path";
  }
  button.dataset.path = path;
  button.title = path;
  item.append(button);
}

function pathOf(item) {
  const root = item.closest(".jt-root");
  let path = "";
  for (let node = item; node && root?.contains(node); node = node.parentElement?.closest("li")) path = `/${node.dataset.k}${path}`;
  return `${root?.dataset.path ?? ""}${path}`;
}

// -- keys: j and k go through the events, whatever has the focus --------------------------------------------------------

function onKey(event) {
  if (!body() && !document.getElementById("event-following") && !document.getElementById("event-previous")) return;
  if (!"jk".includes(event.key) || event.key.length !== 1 || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.getElementById("keys-on")?.checked === false || document.querySelector("dialog[open]")) return;
  if (event.target.isContentEditable || /^(input|select|textarea)$/i.test(event.target.tagName ?? "")) return;
  const down = event.key === "j";
  event.preventDefault();
  event.stopImmediatePropagation();
  const next = neighbour(down) ?? document.getElementById(down ? "event-following" : "event-previous");
  if (!next) return;
  next.closest("#events-rows tr")?.scrollIntoView({ block: "nearest" });
  next.click();
}

function neighbour(down) {
  const links = [...(body()?.querySelectorAll("a.seq") ?? [])];
  if (!links.length) return null;
  const focused = document.activeElement?.closest?.("#events-rows tr")?.querySelector("a.seq");
  const at = links.indexOf(links.find((link) => link.getAttribute("aria-current")) ?? focused);
  const shown = document.querySelector("#inspector [data-shown]");
  if (at < 0) return shown ? null : down ? links[0] : links.at(-1);
  return links[at + (down ? 1 : -1)] ?? null;
}
