"""In-memory stores that keep the contract of the real stores on a given clock."""
