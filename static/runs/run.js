import { startTicking } from "./ticking.js";

startTicking();

// A run's page shows the event picked in the timeline beside it, as if it were picked in the list.
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const link = event.target.closest?.(".lanes a");
  const inspector = document.getElementById("inspector");
  const address = link?.getAttribute("href");
  if (!address || !inspector) return;
  const seq = new URLSearchParams(address.slice(1)).get("event");
  if (!seq) return;
  event.preventDefault();
  const listed = document.querySelector(`#events-rows tr[data-seq="${CSS.escape(seq)}"] a.seq`);
  if (listed) {
    listed.closest("tr").scrollIntoView({ block: "nearest" });
    listed.click();
  } else {
    htmx.ajax("GET", `${location.pathname}/events/${seq}`, "#inspector");
  }
});

// What a reader opened stays open when a live frame draws its part again.
const opened = new Set();
document.addEventListener("click", (event) => {
  const details = event.target.closest?.("details[id] > summary")?.parentElement;
  if (details?.open) opened.delete(details.id);
  else if (details) opened.add(details.id);
  for (const menu of document.querySelectorAll(".menu-of[open]")) if (!menu.contains(event.target)) close(menu);
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector(".menu-of[open]");
  if (!menu) return;
  close(menu);
  menu.querySelector("summary").focus();
});
for (const drawn of ["htmx:after:swap", "htmx:ws:after:message:incoming"]) document.addEventListener(drawn, reopen);

function close(menu) {
  menu.open = false;
  opened.delete(menu.id);
}

function reopen() {
  for (const id of opened) {
    const details = document.getElementById(id);
    if (details) details.open = true;
  }
}
