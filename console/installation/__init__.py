"""An installation checks its settings and its database, and is copied into a backup."""
