// The range of a run's past: the address follows the event that is shown, so that a reload and a link show the same.

document.addEventListener("htmx:after:swap", () => {
  const shown = document.getElementById("past")?.dataset.event;
  const form = document.getElementById("scrub");
  if (!shown || !form) return;
  const asked = new URLSearchParams(new FormData(form));
  asked.set("as_of", shown);
  history.replaceState(null, "", `${form.getAttribute("action")}?${asked}`);
  document.title = document.title.replace(/(\d+)(?= · )/, shown);
});
