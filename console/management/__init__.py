"""What the console adds to the command line."""
