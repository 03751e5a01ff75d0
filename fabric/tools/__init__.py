"""The runner finds a tool by its name, checks its arguments and runs it."""
