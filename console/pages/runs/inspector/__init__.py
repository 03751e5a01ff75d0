"""The inspector explains one event of a run in sections."""
