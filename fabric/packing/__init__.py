"""Journal rows are packed under a small dictionary and unpacked again."""
