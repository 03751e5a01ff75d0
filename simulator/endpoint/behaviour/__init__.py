"""A behaviour of the endpoint says how a model answers a turn, and how it misbehaves."""
