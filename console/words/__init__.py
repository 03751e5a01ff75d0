"""Describes drills, fabrics, graphs, notifications, reviews and tables in words, for pages and the editor."""
