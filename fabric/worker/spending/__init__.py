"""A process holds its share of budgets, retry tokens and circuit breakers."""
