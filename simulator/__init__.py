"""The simulator runs the production engine in simulated time, plays failures, and judges what happened."""
