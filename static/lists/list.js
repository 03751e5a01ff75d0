// A list of runs or reviews that stays true: every two seconds it asks how many it lacks and which of its own rows changed. New rows
// wait behind a bar, so nothing jumps. It asks nothing while the tab is hidden or the page is paused, and less often of a slow database.
import { heard, look, paused } from "../shell/badge.js";
import { localise } from "../shell/times.js";
import { parsed } from "../shell/trusted.js";

const EVERY_MS = 2000;
const SLOWER = 20; // After a slow answer, wait for this many times its duration.
const SPEAK_MS = 5000;

// Read a list's attributes: the query, the bounds of its page, and whether it takes new rows.
const ASKED = ["q", "after", "down", "new"];

const list = document.querySelector("section[data-news][data-follows]");
let timer = 0;
let asking = false;
let spokenAt = 0;

function start() {
  const badge = document.getElementById("live");
  if (badge) look(badge, paused() ? "paused" : "live");
  document.addEventListener("visibilitychange", () => (document.hidden ? hide() : ask()));
  document.addEventListener("live:hold", () => clearTimeout(timer));
  document.addEventListener("live:go", ask);
  plan(EVERY_MS);
}

function hide() {
  clearTimeout(timer);
  look(document.getElementById("live"), "paused");
}

function plan(ms) {
  clearTimeout(timer);
  if (!document.hidden && !paused()) timer = setTimeout(ask, ms);
}

async function ask() {
  if (asking || document.hidden || paused()) return;
  asking = true;
  const began = performance.now();
  try {
    const answer = await fetch(question(), { headers: { "HX-Request": "true" }, redirect: "error" });
    if (answer.status === 401) {
      look(document.getElementById("live"), "stale", "Signed out");
      return;
    }
    if (!answer.ok) throw new Error(answer.statusText);
    take(parsed(await answer.text()));
    plan(Math.max(EVERY_MS, SLOWER * (performance.now() - began)));
  } catch {
    look(document.getElementById("live"), "stale");
    plan(3 * EVERY_MS);
  } finally {
    asking = false;
  }
}

function question() {
  // A row's id is a word and the id of its run or review: run-01a2, ask-0f3c.
  const seen = [...list.querySelectorAll("tr[data-seq]")].map((row) => `${row.id.slice(4)}.${row.dataset.seq}`);
  const [path, own] = list.dataset.news.split("?");
  const asked = new URLSearchParams(own);
  for (const name of ASKED) if (name in list.dataset) asked.set(name, list.dataset[name]);
  asked.set("seen", seen.join(","));
  return `${path}?${asked}`;
}

function take(page) {
  const told = page.querySelector("[data-news]");
  const badge = document.getElementById("live");
  if (!told) throw new Error("this is no news");
  heard(Number(told.dataset.at));
  badge.dataset.at = told.dataset.at;
  if (!paused()) look(badge, "live");
  for (const row of told.querySelectorAll("tr[id]")) change(document.adoptNode(row));
  offer(Number(told.dataset.news), told.dataset.more === "yes");
  if ("waits" in told.dataset && list.dataset.titled) title(told.dataset.waits);
}

// The title and the navigation show the reader's waiting reviews, whatever the filter: a background tab shows them too.
function title(waits) {
  document.title = `${waits ? `(${waits}) ` : ""}${list.dataset.titled}`;
  if (!waits) return; // The frame's next poll removes the number.
  for (const place of document.querySelectorAll('.nav a[aria-current="page"] .count')) place.firstChild.data = waits;
}

// The row stays where it is, and so does the reader's focus.
function change(row) {
  const old = document.getElementById(row.id);
  if (!old) return;
  const held = old.contains(document.activeElement);
  const box = old.querySelector("input[type=checkbox]");
  if (box) row.prepend(keep(box));
  old.replaceWith(row);
  localise(row);
  if (held) row.querySelector("a.cell")?.focus({ preventScroll: true });
}

// Picked rows stay picked. The server renders a row without its box, because its page may have none.
function keep(box) {
  const cell = document.createElement("td");
  cell.className = "fit c-pick";
  cell.append(box);
  return cell;
}

function offer(count, more) {
  const bar = document.getElementById("new-rows");
  const words = `${count}${more ? "+" : ""} new`;
  bar.hidden = !count;
  if (!count || bar.querySelector("span").textContent === words) return;
  bar.querySelector("span").textContent = words;
  const place = document.getElementById("spoken");
  if (place && Date.now() - spokenAt > SPEAK_MS) {
    place.textContent = `${words} ${list.dataset.things}`;
    spokenAt = Date.now();
  }
}

// The key for one more filter opens the form and goes to its first field.
document.getElementById("add-filter")?.addEventListener("toggle", (event) => {
  if (event.target.open) document.getElementById("add-field").focus();
});

if (list) start();
