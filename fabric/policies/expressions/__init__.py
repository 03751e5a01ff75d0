"""CEL expressions are evaluated, the slow ones in child processes with a deadline."""
