"""The chosen rung is carried out: once more, another way, undone, or ended."""
