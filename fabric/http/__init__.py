"""Every request leaves through one gate, and every body is read within bounds."""
