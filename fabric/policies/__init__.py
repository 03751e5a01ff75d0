"""A fabric's gates, Cedar policies and graph rules are compiled into callables."""
