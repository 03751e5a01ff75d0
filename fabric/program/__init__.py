"""Names this program and its version."""
