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

// A table begins on a line of its own: after the line of the cursor.
function insert(text) {
  const before = source.value.slice(0, source.selectionEnd);
  const rest = source.value.slice(source.selectionEnd);
  const end = before === "" || before.endsWith("\n") ? 0 : rest.indexOf("\n") + 1 || rest.length;
  const at = before.length + end;
  const gap = at === 0 || source.value[at - 1] === "\n" ? "" : "\n";
  source.setRangeText(gap + text, at, at, "end");
  source.focus();
  source.dispatchEvent(new Event("input", { bubbles: true }));
}

for (const button of document.querySelectorAll("[data-insert]")) {
  button.addEventListener("click", () => insert(button.dataset.insert));
}
