// A run's page shows the event picked in the timeline beside it, as if it were picked in the list.
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const link = event.target.closest?.(".lanes a");
  const inspector = document.getElementById("inspector");
  const address = link?.getAttribute("href");
  if (!address || !inspector) return;
  const seq = new URLSearchParams(address.slice(1)).get("event");
  if (!seq) return;
  event.preventDefault();
  const listed = document.querySelector(`#events-rows tr[data-seq="${CSS.escape(seq)}"] a.seq`);
  if (listed) {
    listed.closest("tr").scrollIntoView({ block: "nearest" });
    listed.click();
  } else {
    htmx.ajax("GET", `${location.pathname}/events/${seq}`, "#inspector");
  }
});
