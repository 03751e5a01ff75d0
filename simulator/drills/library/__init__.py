"""A workspace keeps scenarios of its own, captures some from runs, and has them drilled."""
