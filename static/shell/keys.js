// The keys of the console. The server's sheet (#keys) lists them; this script carries them out.
import { openPalette } from "./palette.js";

const KEPT = "fabric-keys"; // "off" while single-key shortcuts are off.
const CHORD_MS = 1200;

const DOES = {
  go: (row) => location.assign(row.dataset.to),
  search: () => find(),
  palette: () => openPalette(),
  actions: () => openPalette({ actions: true }),
  sheet: openSheet,
  next: () => step(1),
  previous: () => step(-1),
  open: (_row, event) => open(event),
  pick: (_row, event) => pick(event),
  press: (row) => press(row),
  player: null, // The page of a drill has them: drill.js.
  close: null, // A dialog closes itself.
  submit: (_row, event) => submit(event),
};

let begun = ""; // The first key of two.
let begunAt = 0;

export function startKeys() {
  const sheet = document.getElementById("keys");
  if (!sheet) return;
  const rows = new Map();
  for (const row of sheet.querySelectorAll("[data-keys]")) {
    const known = rows.get(row.dataset.keys) ?? [];
    // A key with several meanings: an element of the page comes before a key of all pages.
    rows.set(row.dataset.keys, row.dataset.do === "press" ? [row, ...known] : [...known, row]);
  }
  const on = document.getElementById("keys-on");
  on.checked = !off();
  on.addEventListener("change", () => keep(on.checked));
  document.addEventListener("keydown", (event) => pressed(event, rows));
  document.addEventListener("click", (event) => event.target.closest?.("[data-do=sheet]") && openSheet());
}

function pressed(event, rows) {
  if (event.defaultPrevented || event.isComposing || event.repeat && !"jk".includes(event.key)) return;
  const names = namesOf(event);
  if (!names) return;
  const bare = !names.includes(" ") && names.length === 1;
  if (bare && (off() || typing(event.target) || document.querySelector("dialog[open]"))) return;
  if (!bare && names !== "Ctrl Enter" && names !== "Ctrl K" && document.querySelector("dialog[open]")) return;
  const now = Date.now();
  const found = (bare && begun && now - begunAt < CHORD_MS && rows.get(`${begun} ${names}`)) || rows.get(names);
  begun = "";
  if (found) {
    if (found.some((row) => DOES[row.dataset.do] && DOES[row.dataset.do](row, event) !== false)) event.preventDefault();
  } else if (bare && [...rows.keys()].some((keys) => keys.startsWith(`${names} `))) {
    begun = names;
    begunAt = now;
  }
}

// Return the key's name on the sheet; nothing for other keys.
function namesOf(event) {
  const name = event.key.length === 1 ? event.key : { Enter: "Enter" }[event.key];
  // AltGr is how some keyboards write [ and ], and some systems call it Ctrl and Alt together.
  if (name?.length === 1 && event.getModifierState("AltGraph")) return name;
  if (!name || event.altKey) return "";
  if (event.ctrlKey || event.metaKey) return `Ctrl ${name.length === 1 ? name.toUpperCase() : name}`;
  return name;
}

function typing(target) {
  return target.isContentEditable || /^(input|select|textarea)$/i.test(target.tagName ?? "");
}

function off() {
  try {
    return localStorage.getItem(KEPT) === "off";
  } catch {
    return false;
  }
}

function keep(wanted) {
  try {
    localStorage.setItem(KEPT, wanted ? "on" : "off");
  } catch {
    // Storage is closed: the setting stays as it is.
  }
}

// A list's own query line comes before the search of everything; where neither has room, the palette finds too.
function find() {
  const fields = [document.querySelector("main .query input"), document.getElementById("top-q")];
  const field = fields.find((one) => one?.checkVisibility());
  if (!field) return openPalette();
  field.focus();
  field.select();
}

function openSheet() {
  const sheet = document.getElementById("keys");
  if (!sheet.open) sheet.showModal();
}

// -- rows of a list ----------------------------------------------------------------------------------------------------

const rowsOf = (lists) => lists.flatMap((list) => [...list.querySelectorAll("tbody tr, li")]).filter((row) => row.checkVisibility() && linkOf(row));
const linkOf = (row) => row.querySelector("a.cell[href], [data-open], a[href]");

function step(by) {
  const rows = rowsOf([...document.querySelectorAll("[data-list]")]);
  if (!rows.length) return false;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  linkOf(rows[next]).focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

// A link that has the focus opens by itself; elsewhere in its row, Enter opens the row.
function open(event) {
  if (event.target.closest?.("a, button, summary, input, select, textarea, dialog")) return false;
  const row = event.target.closest?.("[data-list] tbody tr, [data-list] li");
  if (!row) return false;
  linkOf(row)?.click();
}

// The box of the row that has the focus.
function pick(event) {
  const box = event.target.closest?.("[data-list] tbody tr, [data-list] li")?.querySelector("input[type=checkbox]:not(:disabled)");
  if (!box) return false;
  box.click();
}

// -- elements of the page ----------------------------------------------------------------------------------------------

function press(row) {
  const named = [...document.querySelectorAll(`[data-press="${CSS.escape(row.dataset.to)}"]`)];
  const shown = named.find((one) => one.checkVisibility() && !one.disabled);
  if (!shown) return false;
  shown.click();
}

// Only where there is one way to send: between approving and rejecting, a person presses the button.
function submit(event) {
  const form = event.target.form;
  const buttons = form?.querySelectorAll("button[type=submit]:not([formaction])") ?? [];
  if (form?.method !== "post" || buttons.length !== 1 || buttons[0].disabled) return false;
  form.requestSubmit(buttons[0]);
}
