"""Circuit breakers count failures and decide which call may pass."""
