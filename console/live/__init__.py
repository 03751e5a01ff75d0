"""Pages that follow a run: one reader per watched run and process, every socket served from what it rendered once (design.md 4.11)."""
