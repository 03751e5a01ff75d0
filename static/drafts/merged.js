// Two authors edit one draft: an answer of the server may hold the other author's text. Morphing leaves the focused field and picked
// options alone, but the page then names the newer step. Saving would overwrite the other author's text. So this script updates fields
// that the author left alone. A page that shows text older than its answer keeps the earlier step, and the server asks.

const TEXT = "input[type=text], textarea";

let before = null;
const older = new WeakMap(); // Fields whose text is older than the page's last answer, with their first text and its step.

document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  before = null;
  const body = ctx?.request?.body;
  if (ctx?.target?.id !== "editor" || !body?.getAll) return;
  const field = document.activeElement;
  const text = Boolean(field?.matches?.(TEXT) && field.form?.id === "draft-form");
  before = {
    body,
    field: text ? field : null,
    shown: text ? field.defaultValue : "",
    touched: new Set([...picked()].filter((one) => !sentAs(one, body))),
  };
});

document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  if (!before || ctx?.target?.id !== "editor") return;
  const { body, field, shown, touched } = before;
  before = null;
  for (const one of picked()) if (!touched.has(one)) follow(one);
  if (!field?.isConnected || !body.has(field.name)) return;
  const { was, step } = older.get(field) ?? { was: lines(shown), step: body.get("step") };
  older.delete(field);
  const sent = lines(body.get(field.name));
  const now = lines(field.defaultValue);
  const value = lines(field.value);
  if (value === now || now === sent) return;
  if (value === was && sent === was) {
    field.value = field.defaultValue;
  } else if (now !== was && value !== sent) {
    older.set(field, { was, step });
    document.getElementById("draft-step").value = step;
  }
});

// Morphing changes neither what is picked nor the text of an area that the author has written in.
const picked = () =>
  document.querySelectorAll("#draft-form select[name], #draft-form input[type=checkbox][name], #draft-form textarea[name]");

function sentAs(one, body) {
  if (one.tagName === "TEXTAREA") return lines(body.get(one.name)) === lines(one.value);
  const values = body.getAll(one.name);
  return one.type === "checkbox" ? values.includes(one.value) === one.checked : values.includes(one.value);
}

// The state that the server sent.
function follow(one) {
  if (one === document.activeElement && one.matches(TEXT)) return;
  if (one.tagName === "TEXTAREA") one.value = one.defaultValue;
  else if (one.type === "checkbox") one.checked = one.defaultChecked;
  else {
    const chosen = [...one.options].findIndex((option) => option.defaultSelected);
    one.selectedIndex = Math.max(0, chosen);
  }
}

// A form sends other line ends than a field holds.
const lines = (text) => String(text ?? "").replaceAll("\r\n", "\n");
