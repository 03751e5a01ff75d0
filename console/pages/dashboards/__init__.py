"""The page of dashboards: figures of runs by group and over time."""
