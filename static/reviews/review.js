// The page of one review. It works without this script, which compares an edit while it is typed, leads from a picked answer to its
// fields, and keeps written text from a stray click.
import { heard, look, paused } from "../shell/badge.js";

const WAIT_MS = 300;

let timer = 0;

const form = () => document.getElementById("decision");

// Picking an answer by its key leads to its field. A click on the label without a pointer comes from a key.
document.addEventListener("click", (event) => {
  const label = event.target.closest?.("[data-press^=verb-]");
  if (label && event.target === label && event.detail === 0) setTimeout(lead, 0, label.querySelector("input")?.value);
});

const FIRST = { edit: "#edit .input, #edit input:not([type=hidden])", approve: "#cap_usd" };

function lead(verb) {
  const field = (FIRST[verb] && form().querySelector(FIRST[verb])) || document.getElementById("message");
  field.focus();
  field.scrollIntoView({ block: "nearest" });
}

// -- changes -----------------------------------------------------------------------------------------------------------

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

// -- rows --------------------------------------------------------------------------------------------------------------

// After an item was added, moved or removed, the focus goes to its new place.
let pressed = null;
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("#edit button[name=do]");
  if (button) pressed = button.value.split(" ");
});

const STEPS = { up: -1, down: 1 };

function follow(event) {
  // The comparison arrives separately, perhaps before the items.
  if (!pressed || event.detail.ctx?.target?.id === "changes") return;
  const [act, path] = pressed;
  pressed = null;
  const [, list, at] = STEPS[act] || act === "remove" ? /^(.*)\.(\d+)$/.exec(path) : [path, path];
  const button = (way, place) => document.getElementById(`${way}.${list}.${place}`);
  const add = document.getElementById(`add.${list}`);
  const items = document.querySelectorAll(`[id="n.${list}"] > .nest-items > [data-item]`);
  const place = Number(at) + STEPS[act];
  const added = items[items.length - 1]?.querySelector(".input, input[type=checkbox]");
  const moved = act === "up" ? button("up", place) ?? button("down", place) : button("down", place) ?? button("up", place);
  ({ add: added, up: moved, down: moved }[act] ?? (add?.disabled ? null : add))?.focus();
}
document.addEventListener("htmx:after:swap", follow);

// -- a draft, kept in this tab while its author signs in again ---------------------------------------------------------

const draft = () => `review-draft ${form().dataset.draft}`;

document.addEventListener("click", (event) => {
  if (!event.target.closest?.("#sign-in-again")) return;
  try {
    const { csrfmiddlewaretoken, ...values } = Object.fromEntries(new FormData(form()));
    sessionStorage.setItem(draft(), JSON.stringify(values));
  } catch {
    // No storage: the sign-in alone is done again.
  }
});

function putBack() {
  if (!form()?.dataset.draft) return;
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(draft()) || "null");
    sessionStorage.removeItem(draft());
  } catch {
    return;
  }
  if (!kept) return;
  const now = Object.fromEntries(["csrfmiddlewaretoken", "digest"].map((name) => [name, form().elements[name].value]));
  // Another content has other fields: only the message is still about it.
  const values = { ...(kept.digest === now.digest ? kept : { message: kept.message }), ...now, draft: "1" };
  htmx.ajax("POST", form().dataset.changes, { source: "#review", values, target: "#review", swap: "outerHTML" });
}
putBack();

// -- answers -----------------------------------------------------------------------------------------------------------

// After a refusal the page shows the reason first.
let seen = document.getElementById("review");
document.addEventListener("htmx:after:swap", () => {
  const now = document.getElementById("review");
  if (now === seen) return; // Only a part was updated: leave the focus alone.
  seen = now;
  fold();
  (document.querySelector("#review [aria-invalid=true]") ?? document.getElementById("review-said"))?.focus();
});

// On a phone the queue stands below the review, folded.
function fold() {
  const queue = document.getElementById("review-queue");
  if (queue && matchMedia("(max-width: 860px)").matches) queue.open = false;
}
fold();

// -- what became of the review -----------------------------------------------------------------------------------------

// Every second the page asks whether it shows the review as it is. Only if it does not, its heartbeat, which comes every few
// seconds anyway, comes at once and says what is new.
const EVERY_MS = 1000;
const SLOWER = 20; // After a slow answer, wait for this many times its duration.

let asking = false;
let next = 0;
let gone = false; // The reader was signed out.

const badge = () => document.getElementById("live");
const hand = () => document.getElementById("hand");

function plan(ms) {
  clearTimeout(next);
  if (!gone && !document.hidden && !paused() && hand()?.dataset.news) next = setTimeout(ask, ms);
}

async function ask() {
  const { news, seen } = hand()?.dataset ?? {};
  if (!news || asking || document.hidden || paused()) return;
  asking = true;
  const began = performance.now();
  try {
    const answer = await fetch(`${news}?${new URLSearchParams({ seen })}`, { headers: { "HX-Request": "true" }, redirect: "error" });
    gone = answer.status === 401;
    if (gone) return look(badge(), "stale", "Signed out");
    if (!answer.ok) throw new Error(answer.statusText);
    if (hand().dataset.seen !== seen) return; // The part was replaced meanwhile.
    if (answer.status === 204) current(Number(answer.headers.get("Now-Ms")));
    else htmx.trigger(document.getElementById("beat"), "news");
  } catch {
    look(badge(), "stale");
  } finally {
    asking = false;
    plan(Math.max(EVERY_MS, SLOWER * (performance.now() - began)));
  }
}

document.addEventListener("visibilitychange", () => (document.hidden ? look(badge(), "paused") : ask()));
document.addEventListener("live:go", ask);

// The badge says whether the page shows the review as it is; a page that does not sends nothing.
function current(at) {
  if (!badge() || paused()) return;
  const moved = "moved" in hand().dataset;
  heard(at);
  badge().dataset.at = at;
  if (!hand().dataset.news) look(badge(), "ended", "Closed");
  else if (moved) look(badge(), "stale", "Out of date");
  else look(badge(), "live");
  shut(moved);
}

function shut(moved) {
  for (const part of form()?.querySelectorAll("fieldset.verbs, button[type=submit]") ?? []) {
    if (moved ? part.disabled : !("shut" in part.dataset)) continue;
    part.disabled = moved;
    if (moved) part.dataset.shut = "";
    else delete part.dataset.shut;
  }
}

function told() {
  if (!hand()) return;
  current(Number(hand().dataset.at));
  plan(EVERY_MS);
  // Without a form or a kept text nothing of the reader's is lost, and the page shows what became of the review.
  if ("moved" in hand().dataset && !form() && !document.getElementById("kept")) {
    htmx.ajax("GET", location.pathname, { source: "#review", target: "#review", swap: "outerHTML" });
  }
}

document.addEventListener("htmx:after:swap", ({ detail }) => ["hand", "review"].includes(detail.ctx?.target?.id) && told());
told();
// The first heartbeat says soon that this person has opened the review; it waits for who is at work in the part that it replaces.
setTimeout(() => {
  const beat = document.getElementById("beat");
  if (beat && !hand().contains(document.activeElement)) htmx.trigger(beat, "news");
}, 2000);
for (const event of ["htmx:error", "htmx:response:error"]) {
  document.addEventListener(event, ({ detail }) => detail.ctx?.sourceElement?.id === "beat" && look(badge(), "stale"));
}
