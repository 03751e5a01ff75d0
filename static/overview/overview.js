// A board (the overview, the breakers) asks once a second. What comes back unchanged is not put into the page; what does not come back is said by the badge.
import { heard, look, paused } from "../shell/badge.js";

const SPEAK_MS = 5000;

const board = document.querySelector("[data-board]");
const badge = () => document.getElementById("live");
const sentence = () => document.querySelector("[data-answer]")?.textContent.trim() ?? "";

let shown = "";
let spoken = sentence();
let spokenAt = 0;

// The page's own question a second is not what the rest of the console calls a request: no notice is cleared or shown for it.
function own(handle) {
  return (event) => {
    if (event.detail.ctx?.sourceElement !== board) return;
    event.stopPropagation();
    handle(event, event.detail.ctx);
  };
}

// What is over stands as it is: nothing that its reader does there, the player of a drill for one, is undone by asking again.
const over = () => board.querySelector("[data-over]") !== null;

// A page that nobody sees, or that somebody paused, asks nothing.
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
  shown = ctx.text;
}));

board.addEventListener("htmx:response:error", own((event, ctx) => look(badge(), "stale", ctx.response.status === 401 ? "Signed out" : "No answer")));
board.addEventListener("htmx:error", own(() => look(badge(), "stale", "Reconnecting")));

// What was said before is put back by the next answer, whatever a retry of one card left behind.
board.addEventListener("htmx:after:swap", (event) => {
  if (event.detail.ctx?.sourceElement !== board) shown = "";
  speak();
});

// One polite sentence, when it is another one, at most every five seconds.
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
