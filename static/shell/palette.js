// The palette lists pages, actions of this page, and results of a search. Its rows come from the server; the keyboard chooses.

let active = -1;

const dialog = () => document.getElementById("palette");
const field = () => document.getElementById("palette-q");
// The sentence that nothing was found is a row too, for screen readers. It cannot be chosen.
const OPTION = "[role=option]:not([aria-disabled=true])";
const options = () => [...dialog().querySelectorAll(OPTION)].filter((option) => option.checkVisibility());

export function startPalette() {
  if (!dialog()) return;
  field().addEventListener("keydown", onKey);
  field().addEventListener("input", () => {
    narrow();
    choose(0);
  });
  dialog().addEventListener("click", onClick);
  document.addEventListener("htmx:after:swap", (event) => {
    if (dialog().open && dialog().contains(event.detail.ctx?.target ?? null)) choose(0);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-do=palette]")) {
      event.preventDefault();
      openPalette();
    }
  });
}

/** Opens the palette. `actions`: list the actions of this page. */
export function openPalette({ actions = false } = {}) {
  const palette = dialog();
  if (!palette || palette.open || document.querySelector("dialog[open]")) return;
  if (field().value) {
    // Show it as when it was first opened.
    field().value = "";
    field().dispatchEvent(new Event("input", { bubbles: true }));
  }
  gather();
  palette.showModal();
  narrow();
  const first = actions ? options().findIndex((option) => option.closest("#palette-here")) : 0;
  choose(Math.max(0, first));
}

// Return the actions of the page: buttons and links of its head, and elements marked as actions.
function gather() {
  const here = document.getElementById("palette-here");
  const rows = here.querySelector("[data-rows]");
  const found = [...document.querySelectorAll("main .page-head a.btn, main .page-head button.btn, main [data-action]")];
  const seen = new Set();
  rows.replaceChildren(
    ...found.flatMap((source, at) => {
      const label = (source.dataset.action || source.getAttribute("aria-label") || wordsOf(source)).trim();
      if (!label || seen.has(label) || !source.checkVisibility() || source.getAttribute("aria-disabled") === "true") return [];
      seen.add(label);
      const row = document.createElement("a");
      row.id = `palette-do-${at}`;
      row.className = "option";
      row.setAttribute("role", "option");
      row.tabIndex = -1;
      row.href = source.getAttribute("href") || "#main";
      const icon = source.querySelector("svg.icon");
      if (icon) row.append(icon.cloneNode(true));
      const words = document.createElement("span");
      words.textContent = label;
      row.append(words);
      row.addEventListener("click", (event) => {
        event.preventDefault();
        dialog().close();
        source.click();
      });
      return [row];
    }),
  );
}

function wordsOf(element) {
  const copy = element.cloneNode(true);
  for (const extra of copy.querySelectorAll("kbd, .vh, small")) extra.remove();
  return copy.textContent.replace(/\s+/g, " ");
}

// The page's own rows are here already; show those that have the words.
function narrow() {
  const words = field().value.toLowerCase().split(/\s+/).filter(Boolean);
  const here = document.getElementById("palette-here");
  let shown = 0;
  for (const row of here.querySelectorAll("[role=option]")) {
    row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    shown += row.hidden ? 0 : 1;
  }
  here.hidden = !shown;
}

function onKey(event) {
  const all = options();
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (move && all.length) {
    event.preventDefault();
    choose((active + move + all.length) % all.length);
  } else if (event.key === "Enter" && !event.ctrlKey && !event.isComposing && all[active]) {
    event.preventDefault();
    all[active].click();
  }
}

function onClick(event) {
  // A click beside it closes it, as Esc does.
  if (event.target === dialog()) dialog().close();
  else if (event.target.closest("a[href]")?.pathname === location.pathname) dialog().close();
}

function choose(at) {
  const all = options();
  active = all.length ? Math.min(at, all.length - 1) : -1;
  for (const option of dialog().querySelectorAll(OPTION)) option.setAttribute("aria-selected", "false");
  all.forEach((option, n) => option.setAttribute("aria-selected", String(n === active)));
  if (active >= 0) {
    field().setAttribute("aria-activedescendant", all[active].id);
    all[active].scrollIntoView({ block: "nearest" });
  } else {
    field().removeAttribute("aria-activedescendant");
  }
  const said = document.getElementById("palette-said");
  const text = all.length === 1 ? "1 row" : `${all.length} rows`;
  if (said.textContent !== text) said.textContent = text;
}
