"""JSON schemas are compiled once and report misfits in sentences."""
