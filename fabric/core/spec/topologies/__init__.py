"""One module for each topology, as an author writes it."""
