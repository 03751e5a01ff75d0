// The live badge shows whether a page is current. All pages that follow something share it.
//
//   <a class="live" data-live="live" data-tone="ok" data-at="1790000000000">Live <span class="muted" data-age></span></a>
//
// data-live: live, paused, stale, ended, or off: the page does not follow (yet). data-at: time of the server's last message, milliseconds.
import { span } from "./times.js";

export const STALE_S = 20; // The server sends a message at least every 15 s.

// Tone and word of each look; the tag `live_badge` has the same table.
const LOOKS = {
  live: ["ok", "Live"],
  paused: ["neutral", "Paused"],
  stale: ["warn", "Stale"],
  ended: ["neutral", "Ended"],
  off: ["neutral", "Not live."],
};

let offset = 0; // This machine's clock may be off.
let said = 0; // The server's time in its last message, and when it arrived by the monotonic clock, which stops in sleep.
let saidAt = 0;
let held = false; // The reader paused the page.

export function startBadges() {
  const tickAll = () => {
    document.querySelectorAll("[data-live][data-at]").forEach(tick);
    offerPause();
  };
  setInterval(tickAll, 500);
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-press=pause]");
    if (button) hold(!held);
  });
  // A list that polls waits while the page is paused; its answers set the badge's time.
  document.addEventListener("htmx:before:request", (event) => {
    if (held && event.detail.ctx?.sourceElement?.matches?.("[data-follows]")) event.preventDefault();
  });
  tickAll();
}

/** Sets the server's time of its last message, milliseconds. */
export function heard(at) {
  offset = Date.now() - at;
  said = at;
  saidAt = performance.now();
}

/** Returns the server's time now, milliseconds: this machine's clock, set right by the server's last message. */
export function serverNow() {
  return Date.now() - offset;
}

/** Returns the age of the server's last message in seconds, by the clock that shows the greater age. */
export function ageOf(badge) {
  const at = Number(badge.dataset.at);
  const steady = at === said ? performance.now() - saidAt : 0;
  return Math.max(0, steady, Date.now() - offset - at) / 1000;
}

/** Gives the badge a look. `word`: replaces the look's own word. An ended badge stays ended. */
export function look(badge, name, word) {
  if (!badge || badge.dataset.live === "ended") return;
  const [tone, own] = LOOKS[name];
  badge.dataset.live = name;
  badge.dataset.tone = tone;
  badge.firstChild.textContent = `${word ?? own} `;
  tick(badge); // The age goes with the word: the server may have written both for a browser without script.
}

/** Returns true while the reader has paused this page. */
export function paused() {
  return held;
}

/** Shows beside the word how much waits on a paused page. */
export function say(text) {
  const shown = document.querySelector("#live [data-age]");
  if (shown && shown.textContent !== text) shown.textContent = text;
}

/** Pauses or resumes the page. The events `live:hold` and `live:go` reach the scripts that feed it. */
export function hold(wanted) {
  const badge = document.getElementById("live");
  if (!badge || badge.dataset.live === "ended") return;
  held = wanted;
  look(badge, held ? "paused" : "live");
  if (held) say(badge.dataset.seq ? `at event ${badge.dataset.seq}` : "by you");
  document.dispatchEvent(new CustomEvent(held ? "live:hold" : "live:go"));
  offerPause();
}

function tick(badge) {
  const shown = badge.querySelector("[data-age]");
  const seconds = ageOf(badge);
  if (badge.dataset.live === "live" && seconds > STALE_S) look(badge, "stale");
  if (!shown) return;
  if (badge.dataset.live === "live" || badge.dataset.live === "stale") {
    const text = seconds < 1 ? "now" : span(seconds);
    if (shown.textContent !== text) shown.textContent = text;
  } else if (badge.dataset.live === "ended") {
    shown.textContent = "";
  }
}

// The button beside the badge shows while there is something to pause.
function offerPause() {
  const button = document.getElementById("live-pause");
  const badge = document.getElementById("live");
  if (!button) return;
  button.hidden = !badge || badge.dataset.live === "ended" || !document.querySelector("#live-socket, [data-follows]");
  button.setAttribute("aria-pressed", String(held));
  button.title = held ? "Go on (p)" : "Pause (p)";
}
