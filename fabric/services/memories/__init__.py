"""Services change what fabrics remember and erase it after its time."""
