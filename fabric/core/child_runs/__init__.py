"""A run starts child runs, stops them, and takes in their reports."""
