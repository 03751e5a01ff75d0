"""A worker carries out a batch of stored drills, one after the other."""
