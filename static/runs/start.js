// The form that starts a run. It shows refusals while one types, and keeps the text when one leaves the page.
// The server checks everything again. Without this script the form shows the same after it was sent.
const TEXT_BYTES_MAX = 65536;
const FILES_MAX = 8;
const TEXT_FILE_BYTES_MAX = 1000000;
const FILE_BYTES_MAX = 10000000;
const TOTAL_BYTES_MAX = 30000000;
const DRAFT = "fabric-draft";
const KEPT = ["text", "tier", "priority", "session_key"];
const READ_APART = ["25504446", "504b0304"]; // A PDF and an Office file: the server reads them and reports problems.
const REFUSED = [
  ["89504e47", "a PNG image"], ["ffd8ff", "a JPEG image"], ["47494638", "a GIF image"], ["d0cf11e0", "an old or locked Office file"],
  ["1f8b", "a gzip archive"], ["425a68", "a bzip2 archive"], ["52617221", "a RAR archive"], ["7f454c46", "a program"], ["4d5a90", "a program"],
];

const field = (name) => document.getElementById(name);
const form = () => field("start-form");

// -- sentences beside the fields ---------------------------------------------------------------------------------------

function say(name, sentences) {
  const place = field(`c-${name}`);
  const input = field(name);
  if (!place || !input) return;
  const sprite = document.querySelector("#start-form svg.icon use")?.getAttribute("href")?.split("#")[0];
  place.replaceChildren(...sentences.map((sentence) => line(sentence, sprite)));
  field(`e-${name}`)?.remove(); // The server's message was about the earlier text.
  if (sentences.length) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
}

function line(sentence, sprite) {
  const paragraph = document.createElement("p");
  paragraph.className = "err";
  if (sprite) {
    const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    icon.setAttribute("class", "icon s");
    icon.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", `${sprite}#i-xc`);
    icon.append(use);
    paragraph.append(icon);
  }
  const words = document.createElement("span");
  words.textContent = sentence;
  paragraph.append(words);
  return paragraph;
}

function checkText(asked) {
  const size = new TextEncoder().encode(field("text").value.trim()).length;
  field("text-size").textContent = size ? `${size.toLocaleString("en")} of ${TEXT_BYTES_MAX.toLocaleString("en")} bytes` : "up to 64 KB";
  const wrong = [];
  if (size > TEXT_BYTES_MAX) wrong.push(`The request has ${size.toLocaleString("en")} bytes; at most ${TEXT_BYTES_MAX.toLocaleString("en")} are taken: attach long texts as files.`);
  if (!size && asked) wrong.push("The request is empty: write what the agents should do.");
  if (size || asked) say("text", wrong);
}

// `told`: the server has just reported their problems.
async function checkFiles({ told = false } = {}) {
  const input = field("documents");
  const files = [...input.files];
  const problems = await Promise.all(files.map(problemOf));
  if (input !== field("documents")) return;
  const sentences = problems.filter(Boolean);
  if (files.length > FILES_MAX) sentences.push(`${files.length} files are attached; at most ${FILES_MAX} files are taken; attach fewer.`);
  const total = files.reduce((sum, file) => sum + file.size, 0);
  if (total > TOTAL_BYTES_MAX) sentences.push(`The files have ${total.toLocaleString("en")} bytes together; at most ${TOTAL_BYTES_MAX.toLocaleString("en")} are taken; attach fewer.`);
  if (!told) say("documents", sentences);
  field("files").replaceChildren(...files.map((file, n) => {
    const item = document.createElement("li");
    item.className = "tag";
    if (problems[n]) item.dataset.tone = "danger";
    item.textContent = `${file.name} · ${sizeOf(file.size)}${problems[n] ? " · not taken" : ""}`;
    return item;
  }));
}

async function problemOf(file) {
  if (!file.size) return `${file.name} is empty; attach a file with text in it.`;
  const head = [...new Uint8Array(await file.slice(0, 4).arrayBuffer())].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const refused = REFUSED.find(([magic]) => head.startsWith(magic));
  if (refused) return `${file.name} is ${refused[1]}; attach a PDF, DOCX, XLSX, CSV or text file.`;
  const most = READ_APART.includes(head) ? FILE_BYTES_MAX : TEXT_FILE_BYTES_MAX;
  if (file.size > most) return `${file.name} has ${file.size.toLocaleString("en")} bytes; at most ${most.toLocaleString("en")} are taken; attach the part that matters.`;
  return "";
}

const sizeOf = (bytes) => (bytes < 1024 ? `${bytes} bytes` : bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1048576).toFixed(1)} MB`);

// -- limits of the tier in the picked fabric ---------------------------------------------------------------------------

function showTier() {
  const picked = form()?.querySelector("input[name=fabric]:checked");
  const select = field("tier");
  if (!picked || !select) return;
  const allowed = picked.dataset.tiers.split(" ");
  field("picked").textContent = picked.dataset.title;
  for (const option of select.options) if (option.value) option.disabled = !allowed.includes(option.value);
  select.options[0].textContent = picked.dataset.default ? `The fabric’s default: ${picked.dataset.default}` : "The fabric’s default";
  for (const mean of form().querySelectorAll(".mean")) {
    mean.classList.toggle("shown", mean.dataset.fabric === picked.value);
    for (const row of mean.querySelectorAll("tbody tr")) row.classList.toggle("on", select.value ? row.dataset.tier === select.value : "default" in row.dataset);
  }
  if (select.value && !allowed.includes(select.value)) say("tier", []);
}

// -- the list of fabrics -----------------------------------------------------------------------------------------------

const FIND_FROM = 6; // With fewer fabrics the field to find one stays away.

function findFabric() {
  const search = field("fabric-q");
  const picks = [...form().querySelectorAll(".pick")];
  search.hidden = picks.length < FIND_FROM;
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const pick of picks) pick.hidden = !words.every((word) => pick.textContent.toLowerCase().includes(word)) && !pick.querySelector(":checked");
}

// -- a draft, kept in this tab until the run has started ---------------------------------------------------------------

function keep() {
  const values = Object.fromEntries(KEPT.map((name) => [name, field(name)?.value ?? ""]));
  values.fabric = form().querySelector("input[name=fabric]:checked")?.value ?? "";
  try {
    if (values.text.trim()) sessionStorage.setItem(DRAFT, JSON.stringify(values));
    else sessionStorage.removeItem(DRAFT);
  } catch {
    // No storage: the page itself still has it.
  }
}

function drop() {
  try {
    sessionStorage.removeItem(DRAFT);
  } catch {
    // Not saved.
  }
}

function restore() {
  // Only into an untouched form: an example, an earlier run and the server's answer come first.
  if (!form() || location.search || field("text").value) return;
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(DRAFT) || "null");
  } catch {
    return;
  }
  if (!kept) return;
  for (const name of KEPT) if (field(name) && typeof kept[name] === "string") field(name).value = kept[name];
  if (kept.tier || kept.priority || kept.session_key) form().querySelector(".settings").open = true;
  const radio = [...form().querySelectorAll("input[name=fabric]")].find((one) => one.value === kept.fabric);
  if (radio) radio.checked = true;
  field("draft").hidden = false;
}

// -- wiring: the form is replaced when it comes back with errors, so the document listens ------------------------------

document.addEventListener("input", (event) => {
  if (!event.target.closest?.("#start-form")) return;
  if (event.target.id === "fabric-q") return findFabric();
  if (event.target.id === "text") checkText(false);
  keep();
});
document.addEventListener("change", (event) => {
  if (!event.target.closest?.("#start-form")) return;
  if (event.target.id === "documents") checkFiles();
  showTier();
  keep();
});
document.addEventListener("keydown", (event) => {
  if (event.target.id === "fabric-q" && event.key === "Enter") event.preventDefault(); // It finds, and starts no run.
});
document.addEventListener("focusout", (event) => {
  // On the way to the button nothing may move: a press that began there must end there.
  if (event.relatedTarget?.type === "submit") return;
  if (event.target.id === "text" && event.target.value) checkText(true);
});
document.addEventListener("click", (event) => {
  if (event.target.closest?.("a[data-example]")) queueMicrotask(showTier);
  if (event.target.id !== "draft-drop") return;
  drop();
  field("text").value = "";
  field("draft").hidden = true;
  checkText(false);
  field("text").focus();
});
// Show present problems at once, and put the cursor where typing goes on.
document.addEventListener("click", (event) => {
  if (!event.target.closest?.("#start-form button[type=submit]")) return;
  checkText(true);
  form().querySelector("[aria-invalid]")?.focus();
});
// A second press while the first is on its way does nothing; the server would answer with the same run in any case.
let sending = false;
document.addEventListener("htmx:before:request", (event) => {
  if (event.target.id !== "start-form") return;
  if (sending) event.preventDefault();
  sending = true;
});
document.addEventListener("htmx:after:request", (event) => {
  if (event.target.id === "start-form" && event.detail.ctx?.response?.headers?.get("HX-Redirect")) drop();
});
document.addEventListener("htmx:finally:request", (event) => {
  if (event.target.id === "start-form") sending = false;
});
document.addEventListener("htmx:after:swap", () => {
  showTier();
  findFabric();
  if (field("documents")?.files.length) checkFiles({ told: Boolean(field("e-documents")) });
});

restore();
showTier();
if (form()) {
  findFabric();
  checkText(false);
}
