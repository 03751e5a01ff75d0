"""Services know this installation's settings, keys and retention."""
