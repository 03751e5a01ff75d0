"""Programs start runs, control them and read their events."""
