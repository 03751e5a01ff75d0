// Two write at one draft: what the server answers may hold what somebody else wrote. Morphing leaves alone the field that one is in and what was once
// picked; the page names the newer step all the same, so that what they still show would be saved over what the other wrote. Here a field that was
// left as it was follows, and a page that shows older text than its answer goes on naming the step that it was sent with: then the server asks.

const TEXT = "input[type=text], textarea";

let before = null;
const older = new WeakMap(); // Fields whose text is older than the page's last answer: what they showed at first, and the step of it.

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

const picked = () => document.querySelectorAll("#draft-form select[name], #draft-form input[type=checkbox][name]");

function sentAs(one, body) {
  const values = body.getAll(one.name);
  return one.type === "checkbox" ? values.includes(one.value) === one.checked : values.includes(one.value);
}

// As the server says that it is.
function follow(one) {
  if (one.type === "checkbox") one.checked = one.defaultChecked;
  else {
    const chosen = [...one.options].findIndex((option) => option.defaultSelected);
    one.selectedIndex = Math.max(0, chosen);
  }
}

// A form sends its line ends in another way than a field holds them.
const lines = (text) => String(text ?? "").replaceAll("\r\n", "\n");
