"""A table of rules decides whether a fabric may be published."""
