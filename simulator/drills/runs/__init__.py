"""The app stores runs of drills as runs of a workspace of their own, and erases old ones."""
