"""Commands ask for live drills on this installation and wait for them."""
