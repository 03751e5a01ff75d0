"""Dashboards: figures of the runs that a query finds, by group and over time."""
