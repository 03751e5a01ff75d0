"""Commands that the console adds to the command line."""
