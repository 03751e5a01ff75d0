// Behaviour of all pages beyond HTML. Every page works without it; it takes no decisions.
import { startBadges } from "./badge.js";
import { startEvents } from "../runs/events.js";
import { startKeys } from "./keys.js";
import { startNotifying } from "./notify.js";
import { startOffline } from "./offline.js";
import { startLive } from "../runs/live.js";
import { startPalette } from "./palette.js";
import { startClock } from "./times.js";
import "./trusted.js";

// htmx prepares the page in a timer, perhaps after the page has loaded. A key pressed before that would find plain links.
window.htmx?.process(document.body);
startClock();
startBadges();
startEvents();
startLive();
startPalette();
startKeys();
startNotifying();
startOffline();

// -- an example copied into the form; an attached file stays ----------------------------------------------------------

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-example]");
  const text = document.getElementById("text");
  if (!link || !text || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const radio = document.getElementById(link.dataset.fabric);
  if (radio) radio.checked = true;
  text.focus();
  text.select();
  // The browser types it, so that Undo restores the earlier text.
  const example = document.getElementById(link.dataset.example).textContent;
  if (!document.execCommand("insertText", false, example)) text.value = example;
});

// -- the event beside its list -----------------------------------------------------------------------------------------

document.addEventListener("htmx:after:swap", (event) => {
  const inspector = document.getElementById("inspector");
  if (inspector && inspector.contains(event.detail.ctx?.target ?? null)) {
    // On a narrow page it is below the list: scroll to it, and focus it.
    if (inspector.getBoundingClientRect().top > innerHeight - 80) inspector.scrollIntoView({ block: "start" });
    inspector.focus({ preventScroll: true });
  }
  const shown = document.querySelector("#inspector [data-shown]")?.dataset.shown;
  for (const link of document.querySelectorAll("#events-rows a.seq[aria-current]")) link.removeAttribute("aria-current");
  if (shown) document.querySelector(`#events-rows tr[data-seq="${CSS.escape(shown)}"] a.seq`)?.setAttribute("aria-current", "true");
});

// -- requests that were refused --------------------------------------------------------------------------------------

// A failed poll makes the badge stale. It shows no notice over the reader's own work.
const byItself = (event) => Boolean(event.detail.ctx?.sourceElement?.matches?.("[data-follows], [data-quiet]"));

const SWAPPED = new Set([409, 422, 503]);

document.addEventListener("htmx:response:error", (event) => {
  if (byItself(event)) return;
  const { response, text } = event.detail.ctx;
  if (SWAPPED.has(response.status) && /<\w/.test(text)) return;
  const plain = (response.headers.get("Content-Type") || "").startsWith("text/plain");
  notice(plain ? text.slice(0, 300) : `The server answered ${response.status}: nothing was changed. Try again, or reload the page.`);
});

document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx && !event.detail.ctx.response && !byItself(event)) {
    notice("The server could not be reached: nothing was sent. What you typed is still here.");
  }
});

document.addEventListener("htmx:before:request", (event) => byItself(event) || document.getElementById("notice")?.replaceChildren());

function notice(sentence) {
  const place = document.getElementById("notice");
  if (!place) return;
  const banner = document.createElement("p");
  banner.className = "banner";
  banner.dataset.tone = "danger";
  banner.textContent = sentence;
  place.replaceChildren(banner);
  place.scrollIntoView({ block: "nearest" });
}

// A page from the browser's back-forward cache has lost its socket and its time.
addEventListener("pageshow", (event) => {
  if (event.persisted && document.getElementById("live-socket")) location.reload();
});

// The first invalid field gets the focus, with and without script.
document.addEventListener("htmx:after:swap", () => document.querySelector("#start-form [aria-invalid=true]")?.focus());
document.querySelector("form [aria-invalid=true]")?.focus();
