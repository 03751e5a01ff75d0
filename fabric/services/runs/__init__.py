"""Services start, control, fork, export and rebuild runs."""
