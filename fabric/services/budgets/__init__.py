"""Services set the caps of budgets that runs share."""
