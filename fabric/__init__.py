"""The engine. Knows no HTTP and no templates."""
