"""A fabric's YAML is read with places, edited in place and written."""
