"""Checks shared budgets, counted anew from rows and journals."""
