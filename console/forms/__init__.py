"""Pages read what a browser sent into values, or into errors beside the fields."""
