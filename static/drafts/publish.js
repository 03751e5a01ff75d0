// The page that publishes a draft. Ctrl+Enter is its button wherever one stands, also where the keys of forms do not reach.
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  if (document.querySelector("dialog[open]")) return;
  const button = document.getElementById("publish");
  if (!button || button.disabled) return;
  event.preventDefault();
  button.click();
});
