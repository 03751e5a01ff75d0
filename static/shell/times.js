// Times come from the server in UTC; here they become the reader's own, and distances stay true while the page is open.
const SHOWN = {
  time: new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1, hourCycle: "h23" }),
  minute: new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
  full: new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }),
};

export function localise(root = document) {
  for (const time of root.querySelectorAll("time[data-style]:not([data-local])")) {
    const format = SHOWN[time.dataset.style];
    if (format) time.textContent = format.format(new Date(time.dateTime));
    time.dataset.local = "";
  }
  // Only here a page shows the reader's own times, so only here it may say so.
  for (const place of root.querySelectorAll("[data-zone]:not([data-local])")) {
    place.textContent = `times are yours (${new Intl.DateTimeFormat().resolvedOptions().timeZone}), UTC on hover`;
    place.dataset.local = "";
  }
  distances(root);
}

function distances(root = document) {
  for (const time of root.querySelectorAll('time[data-style="relative"]')) {
    const seconds = (new Date(time.dateTime) - Date.now()) / 1000;
    const text = seconds >= 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
    if (time.textContent !== text) time.textContent = text;
  }
  countdowns(root);
}

function countdowns(root = document) {
  for (const time of root.querySelectorAll('time[data-style="left"]')) {
    const seconds = Math.ceil((new Date(time.dateTime) - Date.now()) / 1000);
    const text = seconds > 0 ? `in ${span(seconds)}` : "as soon as a worker looks";
    if (time.textContent !== text) time.textContent = text;
  }
}

// A duration in its two largest units, a zero left out: `2 m`, `1 d 3 h`.
export function span(seconds) {
  const whole = Math.floor(seconds);
  const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "m"], [whole % 60, "s"]];
  const first = parts.findIndex(([number]) => number);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([number]) => number).map(([number, unit]) => `${number} ${unit}`).join(" ");
}

// The server reads days and hours of a query in the zone that this cookie names.
function tellZone() {
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
  if (!timeZone) return;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `zone=${encodeURIComponent(timeZone)}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
}

export function startClock() {
  tellZone();
  localise();
  document.addEventListener("htmx:after:swap", () => localise());
  setInterval(distances, 1000);
}
