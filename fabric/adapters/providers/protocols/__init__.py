"""The protocols of model providers: one module each, from a request to its body and from a body to an answer."""
