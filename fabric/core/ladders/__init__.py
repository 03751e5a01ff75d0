"""A failed call goes down its ladder: which rung applies, and to which model or turn it leads."""
