// A page that follows a run. Its cursor is its last event. Each frame names its first event. If that does not follow the cursor,
// events are missing, and the page connects again from its cursor. So no event is lost or shown twice.
import { ageOf, heard, look, paused, say } from "../shell/badge.js";
import { afterRows, beforeRows } from "./events.js";
import { localise } from "../shell/times.js";

const GIVE_UP_S = 45; // A socket that is silent for so long is dead, even if it is open: after a sleep, or behind a proxy.
const SPEAK_MS = 5000;

let spokenAt = 0;
let unspoken = 0;
let cameBackAt = -Infinity;
let gone = false; // The page follows no longer; the badge says why.

export function startLive() {
  const socket = document.getElementById("live-socket");
  document.addEventListener("htmx:ws:before:message:incoming", onFrame);
  document.addEventListener("htmx:ws:after:message:incoming", afterFrame);
  document.addEventListener("htmx:ws:close", onClose);
  if (!socket) return;
  setInterval(giveUp, 500);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) look(badge(), "paused");
    else if (link()?.socket?.readyState === WebSocket.CLOSING) comeBack();
  });
  // To resume, connect from the cursor: the server sends the missed events again.
  document.addEventListener("live:go", () => (open() ? comeBack() : location.reload()));
  // Also before the first socket: the server's page was current then.
  window.addEventListener("offline", () => gone || paused() || look(badge(), "stale", "Offline"));
  window.addEventListener("online", () => document.hidden || comeBack());
  // A page from the back-forward cache has no socket, and may lack events.
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
}

// Return the connection: its address has the cursor, its socket is the latest. It is read from the element each time, because
// htmx may make it before or after this script runs.
const link = () => document.getElementById("live-socket")?._htmx?.ws?.connection;
const open = () => link()?.socket?.readyState === WebSocket.OPEN;

// Connect from the cursor at once. A dead connection would take a minute to close.
function comeBack() {
  const connection = link();
  if (!connection) return;
  const old = connection.socket;
  connection.socket = null;
  cameBackAt = performance.now();
  clearTimeout(connection.timer);
  old?.close();
  document.dispatchEvent(new Event("visibilitychange")); // htmx opens a socket for a visible page that has none.
}

function cursorOf(connection) {
  return Number(new URL(connection.url).searchParams.get("after"));
}

function onFrame(event) {
  const { connection, message } = event.detail;
  const frame = read(message);
  const cursor = cursorOf(connection);
  if (paused() && frame) {
    event.preventDefault();
    if (frame.seq > cursor) say(`${frame.seq + frame.more - cursor} more wait`);
    return;
  }
  if (frame && frame.after === cursor) {
    beforeRows();
    return;
  }
  event.preventDefault();
  // An abandoned socket may send known events again. Anything else is a gap: connect again.
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
  heard(frame.at);
  localise();
  afterRows(frame.after, frame.seq);
  unspoken += frame.seq - frame.after;
  speak();
}

function read(message) {
  try {
    return JSON.parse(message.data);
  } catch {
    return null;
  }
}

// -- the badge -------------------------------------------------------------------------------------------------------

const badge = () => document.getElementById("live");

function giveUp() {
  const silent = badge()?.dataset.live === "stale" && ageOf(badge()) > GIVE_UP_S;
  if (silent && open() && performance.now() > cameBackAt + 1000 * GIVE_UP_S) comeBack();
}

const ENDS = {
  4401: "Signed out",
  4403: "Not visible any more",
  4408: "Too many pages follow: reload",
};

function onClose(event) {
  const { code, reason } = event.detail;
  if (reason !== "closed" || document.hidden || paused()) return;
  const tail = document.getElementById("tail");
  if (code === 1000) {
    if (tail) tail.textContent = "The run has ended; nothing is added any more.";
  } else {
    gone = code in ENDS;
    look(badge(), "stale", ENDS[code] ?? (navigator.onLine ? "Reconnecting" : "Offline"));
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
