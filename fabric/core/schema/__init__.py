"""Every part of a written fabric is built from these bases."""
