// Between two events a run's page counts on by itself: the line of now, each call that is out, and the active time.
// The server draws them as of its last event. Nothing counts on a paused page; for reduced motion only numbers do.
import { paused, serverNow } from "../shell/badge.js";
import { span } from "../shell/times.js";

const TICK_MS = 250;
const still = matchMedia("(prefers-reduced-motion: reduce)");

function tick() {
  if (paused() || document.hidden) return;
  const now = serverNow();
  for (const line of document.querySelectorAll("line.moves")) if (!still.matches) move(line, now);
  for (const text of document.querySelectorAll("[data-out]")) {
    const start = Number(text.dataset.start);
    const due = Number(text.dataset.due);
    write(text, `${text.dataset.out}, ${span(Math.max(0, Math.min(now, due) - start) / 1000)} of ${span((due - start) / 1000)}`);
  }
  for (const text of document.querySelectorAll("[data-grows]")) {
    write(text, span((Number(text.dataset.base) + Math.max(0, now - Number(text.dataset.grows))) / 1000));
  }
}

// The part of the picture behind the last event has its own scale: from that event to the last deadline.
function move(line, now) {
  const { left, right, from, until } = line.dataset;
  const place = (at) => Number(left) + (right - left) * Math.max(0, Math.min(1, (at - from) / (until - from)));
  const x = `${place(now).toFixed(2)}%`;
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
  for (const bar of line.closest("table").querySelectorAll(".g-elapsed")) {
    bar.setAttribute("width", `${(place(Math.min(now, bar.dataset.due)) - left).toFixed(2)}%`);
  }
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function startTicking() {
  tick();
  setInterval(tick, TICK_MS);
  for (const drawn of ["htmx:after:swap", "htmx:ws:after:message:incoming"]) document.addEventListener(drawn, tick);
}
