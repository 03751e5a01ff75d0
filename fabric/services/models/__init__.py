"""Services list models, test them, keep their keys and move their breakers."""
