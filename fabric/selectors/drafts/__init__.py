"""Reads list drafts and change requests and preview what a draft changes."""
