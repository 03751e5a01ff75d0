"""Begin, stop and carry out run jobs: one action on many runs."""
