// A board (the overview, the breakers) polls once a second. Unchanged answers leave the page alone; the badge shows failed ones.
// With data-framed, what changes on the board also changes banner and counts of the frame, which is then asked at once.
import { heard, look, paused } from "../shell/badge.js";

const SPEAK_MS = 5000;

const board = document.querySelector("[data-board]");
const badge = () => document.getElementById("live");
const sentence = () => document.querySelector("[data-answer]")?.textContent.trim() ?? "";

let shown = "";
let spoken = sentence();
let spokenAt = 0;

// A poll is no request of the reader: it clears and shows no notice.
function own(handle) {
  return (event) => {
    if (event.detail.ctx?.sourceElement !== board) return;
    event.stopPropagation();
    handle(event, event.detail.ctx);
  };
}

// An ended page stays as it is: a poll must not undo the reader's actions, such as in the player of a drill.
const over = () => board.querySelector("[data-over]") !== null;

// A hidden or paused page does not poll.
board.addEventListener("htmx:before:request", own((event) => {
  if (over()) {
    event.preventDefault();
    return look(badge(), "ended");
  }
  if (!paused() && !document.hidden) return;
  event.preventDefault();
  if (!paused()) look(badge(), "paused");
}));

board.addEventListener("htmx:after:request", own((event, ctx) => {
  if (paused()) event.preventDefault();
  if (ctx.response.status !== 200 || paused()) return;
  const at = Number(ctx.response.headers.get("Now-Ms"));
  heard(at);
  badge().dataset.at = at;
  look(badge(), "live");
  if (ctx.text === shown) event.preventDefault();
  else if ("framed" in board.dataset) document.getElementById("frame")?.dispatchEvent(new Event("changed"));
  shown = ctx.text;
}));

board.addEventListener("htmx:response:error", own((event, ctx) => look(badge(), "stale", ctx.response.status === 401 ? "Signed out" : "No answer")));
board.addEventListener("htmx:error", own(() => look(badge(), "stale", "Reconnecting")));

// The next answer restores the earlier words, whatever a retry of one card left.
board.addEventListener("htmx:after:swap", (event) => {
  if (event.detail.ctx?.sourceElement !== board) shown = "";
  speak();
});

// Announce a changed sentence, at most every five seconds.
function speak() {
  const place = document.getElementById("spoken");
  if (!place || sentence() === spoken) return;
  const wait = spokenAt + SPEAK_MS - Date.now();
  if (wait > 0) {
    setTimeout(speak, wait);
    return;
  }
  spoken = sentence();
  spokenAt = Date.now();
  place.textContent = spoken;
}
