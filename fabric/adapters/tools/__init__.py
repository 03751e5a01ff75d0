"""The tools a fabric may use: what ships with the product, HTTP endpoints, and Python functions that the operator named."""
