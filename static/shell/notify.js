// Browser notifications, for people who asked for them in this browser: when more waits for them while they look at something else.
// The counts come with the frame of the page. The permission is asked for by a button on the page of reviews, and by nothing else.
const KEY = "notify-me";

const offered = () => "Notification" in window;
const wanted = () => offered() && Notification.permission === "granted" && stored() === "1";

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // No storage: no person has asked for it.
  }
}

function store(value) {
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // No storage: it holds for this page alone.
  }
}

function show() {
  const button = document.querySelector("[data-press=notify]");
  if (!button) return;
  button.hidden = !offered();
  button.setAttribute("aria-pressed", String(wanted()));
  button.querySelector("span").textContent = wanted() ? "Notifies this browser" : "Notify me in this browser";
  button.disabled = offered() && Notification.permission === "denied";
  if (button.disabled) button.title = "This browser blocks notifications from here; its settings can allow them.";
}

document.addEventListener("click", async (event) => {
  if (!event.target.closest?.("[data-press=notify]")) return;
  if (wanted()) store("0");
  else if ((await Notification.requestPermission()) === "granted") store("1");
  show();
});

const count = () => parseInt(document.querySelector("#nav-links [data-route=reviews] .count")?.textContent ?? "0", 10) || 0;

export function startNotifying() {
  show();
  let before = count();
  const links = document.getElementById("nav-links");
  if (!links) return;
  new MutationObserver(() => {
    const now = count();
    if (now > before && document.hidden && wanted()) {
      const told = new Notification(now === 1 ? "One thing waits for you in Reviews" : `${now} things wait for you in Reviews`, { tag: "reviews" });
      told.onclick = () => {
        window.focus();
        told.close();
      };
    }
    before = now;
  }).observe(links, { childList: true, subtree: true, characterData: true });
}
