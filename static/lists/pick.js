// The bar below a list counts the selected rows. On the reviews it selects all of one kind, those that one answer can decide; on the
// runs all of the page. A box of its own stands for all that match, on this page or not.
const form = document.getElementById("together");
const bar = document.getElementById("bulk");
const part = (name) => document.getElementById(`bulk-${name}`);
const boxes = () => [...form.querySelectorAll(".c-pick input:not(:disabled)")];
const whole = () => part("all")?.checked ?? false;

function likeThem() {
  const kinds = new Set(boxes().filter((box) => box.checked).map((box) => box.dataset.like));
  return kinds.size === 1 ? boxes().filter((box) => kinds.has(box.dataset.like)) : [];
}

function show() {
  const count = boxes().filter((box) => box.checked).length;
  const some = count > 0 || whole();
  part("hint").hidden = some;
  part("count").textContent = whole() ? part("count").dataset.whole : count ? `${count} selected` : "";
  part("clear").hidden = !some;
  offer("like", likeThem().length, count, (alike) => `Select the ${alike} like ${count === 1 ? "this one" : "these"}`);
  offer("page", boxes().length, count, (all) => `Select all ${all} on this page`);
}

// Offer to select so many, where that is more than are selected.
function offer(name, many, count, words) {
  const button = part(name);
  if (!button) return;
  button.hidden = many <= count || whole();
  button.textContent = many > count ? words(many) : "";
}

function tick(some, wanted) {
  for (const box of some) box.checked = wanted;
  show();
}

if (form && bar) {
  form.addEventListener("change", show);
  part("like")?.addEventListener("click", () => tick(likeThem(), true));
  part("page")?.addEventListener("click", () => tick(boxes(), true));
  part("clear").addEventListener("click", () => tick([...boxes(), part("all")].filter(Boolean), false));
  window.addEventListener("pageshow", show); // A browser that goes back keeps the ticks.
  show();
}
