"""Attached files are read into text, foreign formats in a child process."""
