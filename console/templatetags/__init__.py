"""Templates format numbers, states and untrusted text with these filters and tags."""
