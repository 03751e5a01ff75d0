"""Reads people's TOML and JSONPath, and names each mistake with its place."""
