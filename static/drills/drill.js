// A drill's page: its player steps by the links that the server wrote, by keys, and by itself.
const STEP_MS = 900;
const KEPT = "fabric-keys"; // As in keys.js: "off" when somebody turned bare keys off.
const KEYS = { ArrowLeft: "player-previous", ArrowRight: "player-next", Home: "player-first", End: "player-last" };

let playing = false;
let timer = 0;
let asked = null; // The player's request that is under way, as htmx knows it.
let waiting = []; // What was pressed meanwhile: each link leads on from the moment that stands there, so the next press waits for it.

function go(id) {
  if (asked) return waiting.push(id) > 0;
  const link = document.getElementById(id);
  if (!link?.hasAttribute("href")) return false;
  link.click();
  return true;
}

function show() {
  const button = document.getElementById("player-play");
  if (!button) return;
  button.setAttribute("aria-pressed", String(playing));
  button.querySelector("span").textContent = playing ? "Pause" : "Play";
}

function stop() {
  clearTimeout(timer);
  playing = false;
  show();
}

function toggle() {
  if (playing) return halt();
  playing = true;
  if (!go("player-next")) go("player-first"); // From the end it begins anew.
  show();
}

// What was pressed goes first; then it plays on, from the moment that has come and not from when it was asked for.
function onward() {
  while (waiting.length && !asked) go(waiting.shift());
  if (asked || !playing) return;
  if (!document.getElementById("player-next")?.hasAttribute("href")) return stop();
  clearTimeout(timer);
  timer = setTimeout(() => go("player-next") || stop(), STEP_MS);
}

// Somebody goes elsewhere, or nothing answers: what was pressed before is not wanted any more.
function halt() {
  waiting = [];
  stop();
}

function off() {
  try {
    return localStorage.getItem(KEPT) === "off";
  } catch {
    return false;
  }
}

function copy(button) {
  const said = (words) => (button.querySelector("span").textContent = words);
  const text = document.getElementById(button.dataset.copy).textContent;
  const done = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
  done.then(() => said("Copied"), () => said("Not copied: the browser did not allow it"));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (button) return copy(button);
  for (const menu of document.querySelectorAll(".menu-of[open]")) if (!menu.contains(event.target)) menu.open = false;
  if (event.target.closest?.("#player-play")) toggle();
  else if (event.isTrusted && event.target.closest?.("[data-player] a")) halt();
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector(".menu-of[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || off()) return;
  if (!document.querySelector("[data-player]") || document.querySelector("dialog[open]")) return;
  // What has a use of its own for the key keeps it: fields, buttons, and what scrolls.
  const own = event.target.closest?.(event.key === " " ? "button, summary, input, select, textarea" : "input, select, textarea, [tabindex='0']");
  if (own) return;
  if (event.key === " ") {
    if (!event.repeat) toggle();
  } else if (KEYS[event.key]) {
    (event.key.startsWith("Arrow") ? stop : halt)();
    if (!event.repeat || !asked) go(KEYS[event.key]); // A key that is held down does not run ahead of what is seen.
  } else return;
  event.preventDefault();
});

const ofPlayer = (event) => Boolean(event.detail.ctx?.sourceElement?.closest?.("[data-player]"));

document.addEventListener("htmx:before:request", (event) => {
  if (ofPlayer(event)) asked = event.detail.ctx;
});

document.addEventListener("htmx:after:swap", (event) => {
  // Each moment has an address: whoever copies it sends somebody there.
  const at = document.querySelector("[data-player]")?.dataset.player;
  if (at && event.detail.ctx && event.detail.ctx === asked) history.replaceState(history.state, "", `?at=${at}`);
  show();
});

// One that a later click replaced ends, too, and says nothing.
document.addEventListener("htmx:finally:request", (event) => {
  if (!asked || event.detail.ctx !== asked) return;
  asked = null;
  onward();
});

document.addEventListener("htmx:error", (event) => ofPlayer(event) && halt());
document.addEventListener("htmx:response:error", (event) => ofPlayer(event) && halt());
