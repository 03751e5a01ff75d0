// A drill's page: its player steps by the links that the server wrote, by keys, and by itself.
const STEP_MS = 900;
const KEPT = "fabric-keys"; // As in keys.js: "off" while single-key shortcuts are off.
const KEYS = { ArrowLeft: "player-previous", ArrowRight: "player-next", Home: "player-first", End: "player-last" };

let playing = false;
let timer = 0;
let asked = null; // The player's current request, an object of htmx.
let waiting = []; // Keys pressed meanwhile. Each link leads on from the shown moment, so the next press waits for it.

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
  const use = button.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*/, playing ? "#i-pause" : "#i-play"));
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

// Pressed keys go first. Then the player goes on, from the arrival of the moment and not from its request.
function onward() {
  while (waiting.length && !asked) go(waiting.shift());
  if (asked || !playing) return;
  if (!document.getElementById("player-next")?.hasAttribute("href")) return stop();
  clearTimeout(timer);
  timer = setTimeout(() => go("player-next") || stop(), STEP_MS);
}

// The reader leaves the player, or a request fails: forget the keys pressed before.
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

// The link opens the page with the text; with a clipboard, one click copies it and stays here.
async function copyFile(link) {
  try {
    const answer = await fetch(link.dataset.copyFile);
    if (!answer.ok) throw new Error(answer.statusText);
    await navigator.clipboard.writeText(await answer.text());
    link.querySelector("span").textContent = "Copied";
  } catch {
    location.assign(link.href);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-copy-file]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    return copyFile(link);
  }
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
  // Fields, buttons and scrolling regions keep keys that they use themselves.
  const own = event.target.closest?.(event.key === " " ? "button, summary, input, select, textarea" : "input, select, textarea, [tabindex='0']");
  if (own) return;
  if (event.key === " ") {
    if (!event.repeat) toggle();
  } else if (KEYS[event.key]) {
    (event.key.startsWith("Arrow") ? stop : halt)();
    if (!event.repeat || !asked) go(KEYS[event.key]); // A repeating key does not run ahead of the shown moment.
  } else return;
  event.preventDefault();
});

const ofPlayer = (event) => Boolean(event.detail.ctx?.sourceElement?.closest?.("[data-player]"));

document.addEventListener("htmx:before:request", (event) => {
  if (ofPlayer(event)) asked = event.detail.ctx;
});

document.addEventListener("htmx:after:swap", (event) => {
  // Each moment has an address to copy.
  const at = document.querySelector("[data-player]")?.dataset.player;
  if (at && event.detail.ctx && event.detail.ctx === asked) history.replaceState(history.state, "", `?at=${at}`);
  show();
});

// A request that a later click replaced ends without a notice.
document.addEventListener("htmx:finally:request", (event) => {
  if (!asked || event.detail.ctx !== asked) return;
  asked = null;
  onward();
});

document.addEventListener("htmx:error", (event) => ofPlayer(event) && halt());
document.addEventListener("htmx:response:error", (event) => ofPlayer(event) && halt());
