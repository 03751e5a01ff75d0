// A drill's page: its player steps by the links that the server wrote, by keys, and by itself.
const STEP_MS = 900;
const KEPT = "fabric-keys"; // As in keys.js: "off" when somebody turned bare keys off.
const KEYS = { ArrowLeft: "player-previous", ArrowRight: "player-next", Home: "player-first", End: "player-last" };

let timer = 0;

const go = (id) => {
  const link = document.getElementById(id);
  if (!link?.hasAttribute("href")) return false;
  link.click();
  return true;
};

function show() {
  const button = document.getElementById("player-play");
  if (!button) return;
  button.setAttribute("aria-pressed", String(timer > 0));
  button.querySelector("span").textContent = timer ? "Pause" : "Play";
}

function stop() {
  clearInterval(timer);
  timer = 0;
  show();
}

function toggle() {
  if (timer) return stop();
  if (!go("player-next")) go("player-first"); // From the end it begins anew.
  timer = setInterval(() => go("player-next") || stop(), STEP_MS);
  show();
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
  else if (event.isTrusted && event.target.closest?.("[data-player] a")) stop();
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
  const own = event.target.closest?.(event.key === " " ? "a, button, summary, input, select, textarea" : "input, select, textarea, [tabindex='0']");
  if (own) return;
  if (event.key === " ") toggle();
  else if (KEYS[event.key]) {
    stop();
    go(KEYS[event.key]);
  } else return;
  event.preventDefault();
});

// Each moment has an address: whoever copies it sends somebody there.
document.addEventListener("htmx:after:swap", (event) => {
  const at = document.querySelector("[data-player]")?.dataset.player;
  if (at && event.detail.ctx?.sourceElement?.closest?.("[data-player]")) history.replaceState(history.state, "", `?at=${at}`);
  show();
});
document.addEventListener("htmx:error", stop);
document.addEventListener("htmx:response:error", stop);
