"""Commands show runs, reviews, fabrics and tools on a terminal."""
