"""Members write scenarios, play them and see the results."""
