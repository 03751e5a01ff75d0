"""A run enters and leaves its five stages, and a gate judges what passes."""
