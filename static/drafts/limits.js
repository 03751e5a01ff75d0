// The search of the limits works while one types. Without this script its form asks the server for the same.
const fold = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
const box = () => document.getElementById("find");
const changed = () => document.getElementById("changed");

function shows(one, words) {
  const text = one.dataset.find;
  return words.every((word) => text.includes(word)) && (!changed().checked || Boolean(one.dataset.own));
}

function filter() {
  if (!box()) return;
  const words = fold(box().value);
  const asked = words.length > 0 || changed().checked;
  let found = 0;
  for (const group of document.querySelectorAll(".limit-group")) {
    const rows = group.dataset.find === undefined ? [...group.querySelectorAll("tr[data-find]")] : [group];
    for (const row of rows) row.hidden = !shows(row, words);
    const shown = rows.filter((row) => !row.hidden).length;
    group.hidden = shown === 0;
    found += shown;
    if (asked && shown) {
      if (!group.open) group.dataset.unfolded = "1";
      group.open = true;
    } else if (!asked && group.dataset.unfolded) {
      delete group.dataset.unfolded;
      group.open = false;
    }
  }
  document.getElementById("limits-none").hidden = found > 0;
  // The form that saves says them too, so that its answer shows the same.
  document.querySelector("[data-kept=find]").value = box().value;
  document.querySelector("[data-kept=changed]").value = changed().checked ? "1" : "";
}

const within = (event) => event.target.closest?.("#limits-find");
document.addEventListener("input", (event) => within(event) && filter());
document.addEventListener("submit", (event) => {
  if (!within(event)) return;
  event.preventDefault();
  filter();
});
document.addEventListener("htmx:after:swap", filter);
