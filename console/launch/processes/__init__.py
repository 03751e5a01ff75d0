"""A process finds its directories, shows that it lives and refuses to start, all before Django."""
