"""Pages show Markdown and JSON from outside as safe HTML."""
