"""Draws workers and the messages between them, for pages and the editor, as pictures and tables."""
