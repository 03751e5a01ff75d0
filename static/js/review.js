// The page of one question. Everything on it works without this: here an edit is compared while it is typed, picking an answer leads to its
// fields, and what was written is not lost by a stray click.
const WAIT_MS = 300;

let timer = 0;

const form = () => document.getElementById("decision");

// Picking an answer by its key leads to where it is written: a click that no pointer made, on the label itself, is a key's.
document.addEventListener("click", (event) => {
  const label = event.target.closest?.("[data-press^=verb-]");
  if (label && event.target === label && event.detail === 0) setTimeout(lead, 0, label.querySelector("input").value);
});

const FIRST = { edit: "#edit .input, #edit input:not([type=hidden])", approve: "#cap_usd" };

function lead(verb) {
  const field = (FIRST[verb] && form().querySelector(FIRST[verb])) || document.getElementById("message");
  field.focus();
  field.scrollIntoView({ block: "nearest" });
}

// -- what changes ------------------------------------------------------------------------------------------------------

document.addEventListener("input", (event) => {
  const edit = event.target.closest?.("#edit[data-changes]");
  if (!edit) return;
  mark(event.target);
  clearTimeout(timer);
  timer = setTimeout(compare, WAIT_MS);
});

function mark(field) {
  if (!("was" in field.dataset)) return;
  const now = field.type === "checkbox" ? String(field.checked) : field.value;
  field.classList.toggle("changed", now !== field.dataset.was);
}

function compare() {
  const edit = document.querySelector("#edit[data-changes]");
  if (edit) htmx.ajax("POST", edit.dataset.changes, { source: form(), target: "#changes", swap: "outerHTML" });
}

// -- keys --------------------------------------------------------------------------------------------------------------

// The page after a refusal says why, first of all.
document.addEventListener("htmx:after:swap", () => {
  const wrong = document.querySelector("#review [aria-invalid=true]") ?? document.getElementById("review-said");
  if (document.activeElement === document.body) wrong?.focus();
});

// On a phone the queue stands below the question, folded.
const queue = document.getElementById("review-queue");
if (queue && matchMedia("(max-width: 860px)").matches) queue.open = false;
