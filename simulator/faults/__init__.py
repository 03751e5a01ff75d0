"""The catalogue of faults, their parameters, and the rates that a seed gives them."""
