"""Computes from a decision table alone what each cell promises."""
