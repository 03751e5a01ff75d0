// The editor of fabrics. Everything works without it: each form can be sent by its button; here it is sent while one types.

// A name is sent when it is whole: whoever names it goes with it, letter by letter would be a wild chase.
document.addEventListener("input", (event) => event.target.matches?.("[data-late]") && event.stopPropagation(), true);

// -- focus stays where it was when fields are drawn anew -------------------------------------------------------------

let held = "";
document.addEventListener("htmx:before:swap", () => {
  const active = document.activeElement;
  held = active && document.getElementById("editor")?.contains(active) ? active.id : "";
});
document.addEventListener("htmx:after:swap", () => {
  const lost = !document.activeElement || document.activeElement === document.body;
  if (held && lost) document.getElementById(held)?.focus({ preventScroll: true });
  toTarget(false);
});

// -- problems ----------------------------------------------------------------------------------------------------------

function problems() {
  return [...document.querySelectorAll("#problems a[data-problem]")];
}

function next(back) {
  const found = problems();
  if (!found.length) return;
  const here = found.findIndex((link) => link.getAttribute("href").endsWith(location.hash) && location.hash);
  const to = found[(here + (back ? -1 : 1) + found.length) % found.length];
  to.click();
}

// The field that an address names gets the focus: on the page itself where it is there, else with the part's page.
function toTarget(scroll) {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id || !scroll) return;
  if (/^L\d+$/.test(id)) return toLine(Number(id.slice(1)));
  const field = document.getElementById(id);
  if (!field) return;
  field.scrollIntoView({ block: "center" });
  field.focus({ preventScroll: true });
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
  } else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
    document.getElementById("draft-form")?.requestSubmit();
    event.preventDefault();
  } else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !typing(event.target)) {
    document.getElementById(event.shiftKey ? "redo" : "undo")?.click();
    event.preventDefault();
  }
});

// In a field the browser's own undo is what one means.
function typing(target) {
  return target.matches?.("input[type=text], textarea");
}
