"""Damages journals and snapshots, and checks what a run keeps all the same."""
