"""Services publish, check, compare and export fabrics."""
