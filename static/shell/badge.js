// The live badge: what it says is true now. One for every page that follows something, whatever it follows it by.
//
//   <a class="live" data-live="live" data-tone="ok" data-at="1790000000000">Live <span class="muted" data-age></span></a>
//
// data-live: live, paused, stale or ended. data-at: when the server last said something, its milliseconds.
import { span } from "./times.js";

export const STALE_S = 20; // The server says something at least every 15 s.

// Tone and word of each look; the tag `live_badge` has the same table.
const LOOKS = {
  live: ["ok", "Live"],
  paused: ["neutral", "Paused"],
  stale: ["warn", "Stale"],
  ended: ["neutral", "Ended"],
};

let offset = 0; // This machine's clock may be off.
let said = 0; // What the server said last, and when that was by the clock that nobody sets: it stands still in sleep.
let saidAt = 0;
let held = false; // Somebody asked for quiet.

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
  // A list that asks again by itself waits while it is paused; what it brings sets the badge's time.
  document.addEventListener("htmx:before:request", (event) => {
    if (held && event.detail.ctx?.sourceElement?.matches?.("[data-follows]")) event.preventDefault();
  });
  tickAll();
}

/** The server's time of what it just said, milliseconds. */
export function heard(at) {
  offset = Date.now() - at;
  said = at;
  saidAt = performance.now();
}

/** Seconds since the server said what the badge stands for: by whichever clock it is longer, so that nothing looks fresher than it is. */
export function ageOf(badge) {
  const at = Number(badge.dataset.at);
  const steady = at === said ? performance.now() - saidAt : 0;
  return Math.max(0, steady, Date.now() - offset - at) / 1000;
}

/** Gives the badge a look; `word` where the look's own does not say it. What has ended stays so. */
export function look(badge, name, word) {
  if (!badge || badge.dataset.live === "ended") return;
  const [tone, own] = LOOKS[name];
  badge.dataset.live = name;
  badge.dataset.tone = tone;
  badge.firstChild.textContent = `${word ?? own} `;
  tick(badge); // Its age goes with its word: what stood there may have been said to who has no script.
}

/** Whether somebody paused this page. */
export function paused() {
  return held;
}

/** What the paused page says beside its word: how much waits. */
export function say(text) {
  const shown = document.querySelector("#live [data-age]");
  if (shown && shown.textContent !== text) shown.textContent = text;
}

/** Pauses the page, or lets it go on; `live:hold` and `live:go` tell those who feed it. */
export function hold(wanted) {
  const badge = document.getElementById("live");
  if (!badge || badge.dataset.live === "ended") return;
  held = wanted;
  look(badge, held ? "paused" : "live");
  if (held) say(badge.dataset.seq ? `at seq ${badge.dataset.seq}` : "by you");
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

// The button beside the badge is there while there is something to pause.
function offerPause() {
  const button = document.getElementById("live-pause");
  const badge = document.getElementById("live");
  if (!button) return;
  button.hidden = !badge || badge.dataset.live === "ended" || !document.querySelector("#live-socket, [data-follows]");
  button.setAttribute("aria-pressed", String(held));
  button.title = held ? "Go on (p)" : "Pause (p)";
}
