"""The tools a fabric may use: what ships with the product, HTTP endpoints, and registered Python callables."""
