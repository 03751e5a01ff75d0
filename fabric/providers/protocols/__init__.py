"""Each protocol turns a request into a body and a body into an answer."""
