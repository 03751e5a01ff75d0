// The editor of fabrics. Everything works without it: each form can be sent by its button; here it is sent while one types.
import "./merged.js";
import "./limits.js";

// A name is sent when it is complete, because all places that use it change with it.
document.addEventListener("input", (event) => event.target.matches?.("[data-late]") && event.stopPropagation(), true);

// -- focus stays where it was when fields are drawn anew -------------------------------------------------------------

let held = "";
let unfolded = []; // Parts that the author opened stay open.
let listed = 0; // Length of the list before an addition: the new entry gets the focus.
document.addEventListener("htmx:before:swap", () => {
  const active = document.activeElement;
  held = active && document.getElementById("editor")?.contains(active) ? active.id : "";
  unfolded = [...document.querySelectorAll("#part details[open][id]")].map((one) => one.id);
  listed = added().length;
});
document.addEventListener("htmx:after:swap", () => {
  for (const id of unfolded) {
    const found = document.getElementById(id);
    if (found) found.open = true;
  }
  const lost = !document.activeElement || document.activeElement === document.body;
  if (held && lost) document.getElementById(held)?.focus({ preventScroll: true });
  const things = added();
  if (things.length > listed) toNew(things.at(-1));
  toTarget(false);
});

// Return the entries of the list whose button was pressed last.
function added() {
  const path = held.startsWith("add.") ? held.slice(4) : "";
  const within = (one) => /^\d+$/.test(one.dataset.item.slice(path.length + 1));
  return path ? [...document.querySelectorAll(`[data-item^="${CSS.escape(path)}."]`)].filter(within) : [];
}

function toNew(thing) {
  const folded = thing.querySelector("details");
  if (folded) folded.open = true;
  thing.scrollIntoView({ block: "nearest" });
  thing.querySelector("select, input:not([type=hidden]), textarea")?.focus({ preventScroll: true });
}

// -- the tab of the part is in sight, where there is no room for all of them ------------------------------------------

function tabShown() {
  const strip = document.getElementById("draft-tabs");
  const tab = strip?.querySelector("[aria-current]");
  if (!tab) return;
  const [box, at] = [strip.getBoundingClientRect(), tab.getBoundingClientRect()];
  if (at.left < box.left || at.right > box.right) strip.scrollLeft += (at.left + at.right - box.left - box.right) / 2;
}
tabShown();

// -- problems ----------------------------------------------------------------------------------------------------------

function problems() {
  return [...document.querySelectorAll("#problems a[data-problem]")];
}

function next(back) {
  // A refusal comes first: the author's text waits for an answer to it.
  const question = document.getElementById("draft-said");
  if (question && !question.contains(document.activeElement)) return toQuestion(question);
  const found = problems();
  if (!found.length) return;
  const here = found.findIndex((link) => link.getAttribute("href").endsWith(location.hash) && location.hash);
  const to = found[(here + (back ? -1 : 1) + found.length) % found.length];
  to.click();
}

function toQuestion(question) {
  question.scrollIntoView({ block: "nearest" });
  (question.querySelector("#keep-mine") ?? question).focus({ preventScroll: true });
}

// The badge links to the problem.
document.addEventListener("click", (event) => {
  const question = event.target.closest?.("#saved a") && document.getElementById("draft-said");
  if (!question) return;
  event.preventDefault();
  toQuestion(question);
});

// The field that an address names gets the focus: on the page itself where it is there, else with the part's page.
function toTarget(scroll) {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id || !scroll) return;
  if (/^L\d+$/.test(id)) return toLine(Number(id.slice(1)));
  const field = nearest(id);
  if (!field) return;
  for (let at = field.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
  field.scrollIntoView({ block: "center" });
  field.focus({ preventScroll: true });
}

// The place itself, or the nearest around it that the page has.
function nearest(id) {
  for (let at = id; at.includes("."); at = at.slice(0, at.lastIndexOf("."))) {
    const found = document.getElementById(at);
    if (found) return found;
  }
  return document.getElementById(id);
}

function toLine(line) {
  const text = document.getElementById("text");
  if (!text) return;
  const start = text.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const end = text.value.indexOf("\n", start);
  text.focus({ preventScroll: true });
  text.setSelectionRange(start, end < 0 ? text.value.length : end);
  document.getElementById(`L${line}`)?.scrollIntoView({ block: "center" });
}

addEventListener("hashchange", () => toTarget(true));
if (location.hash) toTarget(true);

// -- keys --------------------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (event.key === "F8") {
    next(event.shiftKey);
    event.preventDefault();
  } else if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
    publish(event);
  } else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
    document.getElementById("draft-form")?.requestSubmit();
    event.preventDefault();
  } else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !typing(event.target)) {
    document.getElementById(event.shiftKey ? "redo" : "undo")?.click();
    event.preventDefault();
  }
});

// -- to publication ----------------------------------------------------------------------------------------------------

// The last input is saved first: the page that publishes shows the draft of the server.
let leaving = false;
function publish(event) {
  const form = document.getElementById("draft-form");
  if (!form || !document.getElementById("to-publish")) return;
  event.preventDefault();
  leaving = true;
  form.requestSubmit();
}
document.addEventListener("click", (event) => {
  if (!event.target.closest?.("#to-publish") || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  publish(event);
});
document.addEventListener("htmx:after:swap", () => {
  if (!leaving) return;
  leaving = false;
  if (!document.getElementById("draft-said")) location.assign(document.getElementById("to-publish").href);
});

// In a field, the browser's own undo applies.
function typing(target) {
  return target.matches?.("input[type=text], textarea");
}

// -- the decision table: a grid that arrows walk, and a ladder whose rungs move ---------------------------------------

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

document.addEventListener("keydown", (event) => {
  const cell = event.target.closest?.("[data-cell]");
  if (cell && ARROWS[event.key] && !event.altKey && !event.ctrlKey && !event.metaKey) {
    const [down, right] = ARROWS[event.key];
    const column = cell.closest("td").cellIndex + right;
    const row = cell.closest("tr").rowIndex + down;
    const to = cell.closest("table").rows[row]?.cells[column]?.querySelector("[data-cell]");
    if (to) to.focus();
    return event.preventDefault();
  }
  if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    const item = event.target.closest?.("[data-item]");
    const button = item?.querySelector(event.key === "ArrowUp" ? "[data-up]" : "[data-down]");
    if (item) event.preventDefault();
    if (button) {
      moved = { list: item.parentElement.closest("[id]")?.id ?? "", from: item.dataset.item, by: event.key === "ArrowUp" ? -1 : 1, control: event.target.id };
      button.click();
    }
  }
  if (event.key === "Escape") {
    const open = event.target.closest?.("[data-rungs], [data-try]");
    const close = open?.querySelector("[data-close]");
    if (close) {
      back = open.dataset.back ?? open.id.replace(/^box\./, "try.");
      close.click();
      event.preventDefault();
    }
  }
});

let moved = null; // The rung moved by the keyboard keeps the focus.
let back = ""; // Where the focus goes when a cell is closed.

document.addEventListener("htmx:after:swap", () => {
  if (back) document.getElementById(back)?.focus({ preventScroll: true });
  back = "";
  if (moved) {
    const number = Number(moved.from.slice(moved.from.lastIndexOf(".") + 1)) + moved.by;
    const to = `${moved.from.slice(0, moved.from.lastIndexOf("."))}.${number}`;
    document.getElementById(moved.control.replace(moved.from, to))?.focus({ preventScroll: true });
    moved = null;
  }
});

// A cell that was opened by the keyboard gives the focus to its first rung. A tap shows the ladder where it is out of sight.
document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-cell]")) opening = event.detail === 0 ? "keys" : "pointer";
});
let opening = "";
document.addEventListener("htmx:after:swap", () => {
  const ladder = opening && document.querySelector("[data-rungs]");
  if (!ladder) return;
  const to = opening === "keys" ? ladder.querySelector("select") : ladder;
  opening = "";
  if (to !== ladder) return to?.focus();
  if (ladder.getBoundingClientRect().top + 120 < innerHeight) return;
  ladder.scrollIntoView({ block: "start" });
  ladder.focus({ preventScroll: true });
});

// Inside a check's box Ctrl+Enter tries the check; elsewhere the page's own shortcut applies.
addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
  const button = event.target.closest?.("[data-try]")?.querySelector("button[name=try]");
  if (!button) return;
  event.preventDefault();
  event.stopPropagation();
  button.click();
}, true);
