"""Commands share exit codes, refusals, acts and the following of a run."""
