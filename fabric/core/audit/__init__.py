"""The audit stream: its lines byte by byte, its cuts, and the table of acts."""
