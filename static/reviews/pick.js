// The bar below the list of reviews counts the selected ones, and selects all of one kind: those that one answer can decide.
const form = document.getElementById("together");
const bar = document.getElementById("bulk");
const part = (name) => document.getElementById(`bulk-${name}`);
const boxes = () => [...form.querySelectorAll(".c-pick input:not(:disabled)")];

function likeThem() {
  const kinds = new Set(boxes().filter((box) => box.checked).map((box) => box.dataset.like));
  return kinds.size === 1 ? boxes().filter((box) => kinds.has(box.dataset.like)) : [];
}

function show() {
  const count = boxes().filter((box) => box.checked).length;
  const alike = likeThem().length;
  part("hint").hidden = count > 0;
  part("count").textContent = count ? `${count} selected` : "";
  part("like").hidden = alike <= count;
  part("like").textContent = alike > count ? `Select the ${alike} like ${count === 1 ? "this one" : "these"}` : "";
  part("clear").hidden = !count;
}

function tick(some, wanted) {
  for (const box of some) box.checked = wanted;
  show();
}

if (form && bar) {
  form.addEventListener("change", show);
  part("like").addEventListener("click", () => tick(likeThem(), true));
  part("clear").addEventListener("click", () => tick(boxes(), false));
  window.addEventListener("pageshow", show); // A browser that goes back keeps the ticks.
  show();
}
