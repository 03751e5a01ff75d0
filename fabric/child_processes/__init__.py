"""Child processes that answer one frame after another, for tools and expressions."""
