"""Chaos with real processes: providers that kill or watch their worker, a harness that starts workers, the ledger that is the truth."""
