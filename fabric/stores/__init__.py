"""The journal writer commits the batches of all runs of a process in one transaction."""
