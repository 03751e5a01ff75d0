"""An author writes a fabric as one typed tree; each module is one part of it."""
