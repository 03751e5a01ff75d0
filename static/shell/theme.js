// Sets the chosen theme before the first paint. Without this script the control works, but the browser forgets the choice.
(() => {
  const KEY = "fabric-theme";
  const root = document.documentElement;
  root.dataset.js = ""; // Elements that need the script show only with it.
  const read = () => {
    try {
      const kept = localStorage.getItem(KEY);
      return kept === "light" || kept === "dark" ? kept : "";
    } catch {
      return ""; // Storage may be closed to us: the system's theme it is.
    }
  };
  const show = (chosen) => {
    if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
    for (const radio of document.querySelectorAll(".theme input")) radio.checked = radio.value === chosen;
  };
  show(read());
  document.addEventListener("DOMContentLoaded", () => {
    show(read());
    for (const radio of document.querySelectorAll(".theme input")) {
      radio.addEventListener("change", () => {
        show(radio.value);
        try {
          localStorage.setItem(KEY, radio.value);
        } catch {
          // Kept for this page alone.
        }
      });
    }
  });
  // Another tab's choice is this tab's choice.
  addEventListener("storage", (event) => event.key === KEY && show(read()));
  // The browser's own store may bring back a page that is older than the choice.
  addEventListener("pageshow", (event) => event.persisted && show(read()));
})();
