"""A scenario as its author writes it, in TOML or as an experiment of chaostoolkit."""
