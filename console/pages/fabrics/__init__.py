"""Members look at published fabrics, their parts and their protections."""
