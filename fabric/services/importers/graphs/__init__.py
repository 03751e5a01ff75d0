"""Graphs as files of other programs, read and written."""
