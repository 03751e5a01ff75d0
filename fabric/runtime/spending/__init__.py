"""A run takes its part in budgets, grants and rates that runs share."""
