"""Conversations in which agents take turns by a graph, with the tools, time limits and memory of turns."""
