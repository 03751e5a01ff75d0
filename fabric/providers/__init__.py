"""Each vendor of models has an adapter, and the router picks one for a request."""
