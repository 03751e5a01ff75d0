// The chosen theme, before anything is painted. The control itself works without this; it is only forgotten then.
(() => {
  const KEY = "fabric-theme";
  let chosen = "";
  try {
    chosen = localStorage.getItem(KEY) || "";
  } catch {
    // Storage may be closed to us: the system's theme it is.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  document.addEventListener("DOMContentLoaded", () => {
    for (const radio of document.querySelectorAll(".theme input")) {
      radio.checked = radio.value === chosen;
      radio.addEventListener("change", () => {
        document.documentElement.dataset.theme = radio.value;
        try {
          localStorage.setItem(KEY, radio.value);
        } catch {
          // Kept for this page alone.
        }
      });
    }
  });
})();
