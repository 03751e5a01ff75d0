"""A cloud serves models under its own addresses and its own sign-in."""
