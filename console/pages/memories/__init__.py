"""Members read the memories of fabrics, and delete single keys."""
