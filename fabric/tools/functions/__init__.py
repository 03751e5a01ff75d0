"""Python functions of the operator run as tools, in threads or child processes."""
