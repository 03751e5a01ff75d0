"""A tool ends with a result, an error or a failed call."""
