"""The query line of the runs list becomes SQL and pages of rows."""
