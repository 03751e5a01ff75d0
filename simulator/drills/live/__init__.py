"""A live drill runs on this installation's own workers; its failures come from the drills' provider."""
