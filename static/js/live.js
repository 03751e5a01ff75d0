// A page that follows a run. It has a cursor: the last event in it. A frame says where it begins; one that does not begin at the
// cursor tells that something was missed, and the page comes back from its cursor. So nothing is lost and nothing is there twice.
import { localise, span } from "./times.js";

const STALE_S = 20; // The server says something at least every 15 s.
const GIVE_UP_S = 45; // A socket that is silent for so long is dead, whatever it says of itself: after a sleep, or behind a proxy.
const SPEAK_MS = 5000;
const ROWS_MAX = 1000;

let spokenAt = 0;
let unspoken = 0;
let following = false;
let link = null;

export function startLive() {
  const socket = document.getElementById("live-socket");
  document.addEventListener("htmx:ws:before:message:incoming", onFrame);
  document.addEventListener("htmx:ws:after:message:incoming", afterFrame);
  document.addEventListener("htmx:ws:close", onClose);
  if (document.getElementById("live")) setInterval(age, 500);
  if (socket) document.addEventListener("visibilitychange", () => document.hidden && say("paused", "neutral", "Paused"));
}

function cursorOf(connection) {
  return Number(new URL(connection.url).searchParams.get("after"));
}

function onFrame(event) {
  const { connection, message } = event.detail;
  const frame = read(message);
  const cursor = cursorOf(connection);
  link = connection;
  if (frame && frame.after === cursor) {
    following = atEnd();
    return;
  }
  event.preventDefault();
  // What the page has already may come once more from a socket that was given up; anything else is a gap: come back for it.
  if (!frame || frame.seq > cursor) connection.socket?.close();
}

function afterFrame(event) {
  const { connection, message } = event.detail;
  const frame = read(message);
  if (!frame) return;
  const next = new URL(connection.url);
  next.searchParams.set("after", frame.seq);
  next.searchParams.set("panels", frame.panels);
  connection.url = next.href;
  offset = Date.now() - frame.at;
  localise();
  trim();
  unspoken += frame.seq - frame.after;
  speak();
  if (following && frame.seq > frame.after) scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
}

function read(message) {
  try {
    return JSON.parse(message.data);
  } catch {
    return null;
  }
}

// -- the badge: what it says is true now -----------------------------------------------------------------------------

let offset = 0; // This machine's clock may be off.

function age() {
  const badge = document.getElementById("live");
  const seconds = Math.max(0, (Date.now() - offset - Number(badge.dataset.at)) / 1000);
  const shown = badge.querySelector("[data-age]");
  if (badge.dataset.live === "live" && seconds > STALE_S) say("stale", "warn", "Stale");
  if (badge.dataset.live === "stale" && seconds > GIVE_UP_S && link?.socket?.readyState === WebSocket.OPEN) link.socket.close();
  if (shown && (badge.dataset.live === "live" || badge.dataset.live === "stale")) {
    const text = seconds < 1 ? "now" : span(seconds);
    if (shown.textContent !== text) shown.textContent = text;
  } else if (shown && badge.dataset.live === "ended") {
    shown.textContent = "";
  }
}

function say(state, tone, word) {
  const badge = document.getElementById("live");
  if (!badge || badge.dataset.live === "ended") return;
  badge.dataset.live = state;
  badge.dataset.tone = tone;
  badge.firstChild.textContent = `${word} `;
}

const ENDS = {
  4401: ["stale", "warn", "Signed out"],
  4403: ["stale", "warn", "Not visible any more"],
  4408: ["stale", "warn", "Too many pages follow: reload"],
};

function onClose(event) {
  const { code, reason } = event.detail;
  if (reason !== "closed" || document.hidden) return;
  const tail = document.getElementById("tail");
  if (code === 1000) {
    if (tail) tail.textContent = "The run has ended; nothing is added any more.";
  } else {
    say(...(ENDS[code] ?? ["stale", "warn", "Reconnecting"]));
  }
}

// One polite sentence at most every five seconds, however much happens.
function speak() {
  const place = document.getElementById("spoken");
  const wait = spokenAt + SPEAK_MS - Date.now();
  if (!place || !unspoken) return;
  if (wait > 0) {
    setTimeout(speak, wait);
    return;
  }
  const state = document.querySelector("#panel-head .badge")?.textContent ?? "";
  place.textContent = `${unspoken} new events. ${state}`;
  spokenAt = Date.now();
  unspoken = 0;
}

// -- the rows --------------------------------------------------------------------------------------------------------

function atEnd() {
  const page = document.documentElement;
  return scrollY > 0 && page.scrollHeight - innerHeight - scrollY < 60;
}

function trim() {
  const rows = document.getElementById("events-rows");
  while (rows && rows.rows.length > ROWS_MAX) rows.deleteRow(0);
}
