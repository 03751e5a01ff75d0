"""What can be done: one module a noun, one transaction a function, keyword-only arguments, the ports handed in."""
