// Shows the state of saving in the editor: the last time, a save in progress, or a failure. After a failure the fields keep the text,
// and the script sends it again until the server has it.
import { span } from "../shell/times.js";

const AGAIN_MS = 3000;
const ABOVE = "see above";

const SAYS = {
  saved: ["neutral", "paused", "Draft"],
  saving: ["info", "live", "Saving"],
  refused: ["warn", "stale", "Not saved:"],
  away: ["danger", "stale", "Not saved:"],
};

let state = "saved";
let since = performance.now();
let timer = 0;

const badge = () => document.getElementById("saved");
const form = () => document.getElementById("draft-form");

// The server writes the age of the last save into the editor, so no clock has to be right.
function told() {
  const ms = Number(document.getElementById("draft-saved")?.dataset.savedMs ?? 0);
  since = performance.now() - ms;
}

function say(next, why = "") {
  state = next;
  const [tone, live, word] = SAYS[next];
  const shown = badge();
  if (!shown) return;
  shown.dataset.tone = tone;
  shown.dataset.live = live;
  shown.querySelector("[data-word]").textContent = word;
  const age = shown.querySelector("[data-age]");
  if (why !== ABOVE) age.textContent = why;
  else if (!age.querySelector("a")) age.replaceChildren(above());
  tick();
}

// The element is made once, so that it keeps mouse and focus.
function above() {
  const place = document.createElement("a");
  place.href = "#draft-said";
  place.textContent = ABOVE;
  return place;
}

function tick() {
  const age = badge()?.querySelector("[data-age]");
  if (!age || state !== "saved") return;
  const seconds = (performance.now() - since) / 1000;
  const text = seconds < 1 ? "saved now" : `saved ${span(seconds)} ago`;
  if (age.textContent !== text) age.textContent = text;
}

// Each POST of the editor changes the draft: its form, undo and redo. Other requests do not concern saving.
const changes = ({ detail: { ctx } }) =>
  Boolean(ctx?.sourceElement?.closest?.("#editor")) && (ctx.request?.method ?? "").toUpperCase() === "POST";
const typed = (event) => event.detail.ctx?.sourceElement?.id === "draft-form";

document.addEventListener("htmx:before:request", (event) => {
  if (!changes(event)) return;
  clearTimeout(timer);
  // The server saves nothing of a conflict before the author answers it.
  if (state !== "away" && !(state === "refused" && document.getElementById("draft-said"))) say("saving");
});

document.addEventListener("htmx:after:request", (event) => {
  if (!changes(event)) return;
  const { response } = event.detail.ctx;
  if (!response) return;
  if (response.status < 400) {
    if (state === "away") notice("");
    say("saved");
  } else if (response.status >= 500) {
    away(event, `The server answers ${response.status}.`);
  } else {
    const out = response.status === 401 || response.status === 403;
    say("refused", out ? "you are signed out or may not" : ABOVE);
    if (out || response.status === 413) notice(out ? "You are signed out, or may not edit any more. What you typed is still here: sign in again in another tab, then save with Ctrl+S." : "It is too long to be sent. What you typed is still here: make it shorter.");
  }
});

document.addEventListener("htmx:after:swap", (event) => {
  if (event.detail.ctx?.target?.id !== "editor") return;
  told();
  tick();
});

document.addEventListener("htmx:error", (event) => {
  if (changes(event) && !event.detail.ctx.response) away(event, "The server cannot be reached.");
});

// The script sends fields again, but no pressed button: its author sees that it had no effect.
function away(event, why) {
  const again = typed(event) && !event.detail.ctx.request?.body?.get?.("do");
  say("away", again ? "sent again as soon as it can be" : "press again later");
  notice(again
    ? `${why} What you typed is still here, and is sent again as soon as it can be.`
    : `${why} Nothing came of the button: press it again when the server is back. What you typed is still here.`);
  clearTimeout(timer);
  timer = setTimeout(send, AGAIN_MS);
}

function send() {
  if (state === "away") form()?.requestSubmit();
}

addEventListener("online", send);

// The page's place for errors. An error is shown once, and not with every attempt.
function notice(sentence) {
  const place = document.getElementById("notice");
  if (!place || place.textContent === sentence) return;
  place.replaceChildren();
  if (!sentence) return;
  const banner = document.createElement("p");
  banner.className = "banner";
  banner.dataset.tone = "danger";
  banner.textContent = sentence;
  place.replaceChildren(banner);
}

addEventListener("beforeunload", (event) => {
  if (state === "away" || state === "refused") event.preventDefault();
});

// The author closes the page: show nothing more.
addEventListener("pagehide", () => {
  const beat = document.getElementById("beat");
  if (!beat) return;
  const body = new FormData(beat);
  body.set("gone", "1");
  navigator.sendBeacon(beat.getAttribute("hx-post"), body);
});

told();
say("saved");
setInterval(tick, 500);
