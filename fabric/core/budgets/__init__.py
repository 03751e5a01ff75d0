"""Runs reserve from shared budgets; these modules keep the counts."""
