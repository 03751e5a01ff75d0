"""The numbers of a fabric: every budget, limit and ladder, with its unit and its source."""
