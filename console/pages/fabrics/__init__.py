"""Members look at published fabrics and their parts."""
