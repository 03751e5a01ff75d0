"""Django brings the tables of an older version up to date."""
