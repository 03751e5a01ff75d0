// The page that publishes a draft. Ctrl+Enter presses its button from everywhere on the page.
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  if (document.querySelector("dialog[open]")) return;
  const button = document.getElementById("publish");
  if (!button || button.disabled) return;
  event.preventDefault();
  button.click();
});
