"""The rules of every run, and the lists of all checks and bugs."""
