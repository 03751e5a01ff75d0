"""PostgreSQL stores the journal, grants, guards and memories."""
