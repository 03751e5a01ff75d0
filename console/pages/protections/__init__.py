"""Members look up which protection answers which class of failures."""
