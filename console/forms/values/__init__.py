"""A form shows a JSON value by its schema and reads it back without losing types."""
