"""Instructions of the pure core, counted by callgrind."""
