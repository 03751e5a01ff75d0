// The editor of a scenario. Form: another fault or fabric shows its own fields at once. TOML: line numbers, and words that are
// inserted at the cursor. Without a script a button shows the fields, and the words are only read.
for (const select of document.querySelectorAll("[data-refresh]")) {
  select.addEventListener("change", () => select.form.requestSubmit(document.getElementById("show-fields")));
}

const source = document.getElementById("source");
const numbers = document.getElementById("numbers");

function number() {
  const count = Math.max(source.value.split("\n").length, source.rows);
  numbers.textContent = Array.from({ length: count }, (_, n) => n + 1).join("\n");
  numbers.scrollTop = source.scrollTop;
}

if (source && numbers) {
  source.addEventListener("input", number);
  source.addEventListener("scroll", () => { numbers.scrollTop = source.scrollTop; });
  number();
}

// A table goes behind the one of the cursor, before the next header, so that no key changes its table. A box without a cursor: the end.
let touched = false;
source?.addEventListener("focus", () => { touched = true; });

function insert(text) {
  const cursor = touched ? source.selectionEnd : source.value.length;
  const next = source.value.slice(cursor).search(/^\[/m);
  const at = next < 0 ? source.value.length : cursor + next;
  const before = source.value.slice(0, at);
  const gap = before === "" || before.endsWith("\n\n") ? "" : before.endsWith("\n") ? "\n" : "\n\n";
  source.setRangeText(gap + text + (next < 0 ? "" : "\n"), at, at, "end");
  source.focus();
  source.dispatchEvent(new Event("input", { bubbles: true }));
}

for (const button of document.querySelectorAll("[data-insert]")) {
  button.addEventListener("click", () => insert(button.dataset.insert));
}
