// While this machine is offline and the server does not answer, buttons that would send something are disabled. A server on this machine
// answers without a network, so it is asked first.
const SENDS = "button[type=submit], button[hx-post], main a.btn[href]:not([href^='#'])";
const SAYS = "Offline: nothing can be sent";

let away = false;

export function startOffline() {
  window.addEventListener("offline", look);
  window.addEventListener("online", look);
  document.addEventListener("htmx:after:swap", () => away && mark());
  for (const kind of ["submit", "click"]) document.addEventListener(kind, refuse, true);
  if (!navigator.onLine) look();
}

async function look() {
  const was = away;
  away = !navigator.onLine && !(await answers());
  if (away) mark();
  else if (was) release();
}

async function answers() {
  try {
    return (await fetch("/livez", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

function mark() {
  for (const one of document.querySelectorAll(SENDS)) {
    if (one.disabled || one.ariaDisabled === "true") continue;
    one.dataset.offline = one.title;
    one.title = SAYS;
    if (one.localName === "a") one.ariaDisabled = "true";
    else one.disabled = true;
  }
}

function release() {
  for (const one of document.querySelectorAll("[data-offline]")) {
    one.title = one.dataset.offline;
    delete one.dataset.offline;
    if (one.localName === "a") one.ariaDisabled = null;
    else one.disabled = false;
  }
}

// A form that is sent by a key keeps its text, and a link keeps its page.
function refuse(event) {
  if (!away || (event.type === "click" && !event.target.closest?.("a[data-offline]"))) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}
