// The matrix of drills: arrows go from cell to cell, Home and End to the ends of a row.
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };

// A drilled cell has a link, one that was never drilled a button; a disabled button takes no focus.
const stopOf = (cell) => cell?.querySelector("a[href]") ?? cell?.querySelector("button:not(:disabled)");

function find(row, at, [down, right]) {
  if (Math.abs(right) === Infinity) return [...row.cells].filter(stopOf).at(right < 0 ? 0 : -1);
  const rows = [...row.parentElement.rows];
  for (let y = rows.indexOf(row) + down, x = at + right; rows[y]?.cells[x]; y += down, x += right) {
    if (stopOf(rows[y].cells[x])) return rows[y].cells[x];
  }
  return null;
}

document.addEventListener("keydown", (event) => {
  const move = MOVES[event.key];
  const cell = event.target.closest?.(".matrix tbody :is(td, th)");
  if (!move || !cell || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  const next = find(cell.parentElement, cell.cellIndex, move);
  event.preventDefault();
  stopOf(next)?.focus();
  next?.scrollIntoView({ block: "nearest", inline: "nearest" });
});
