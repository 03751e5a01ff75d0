"""The outermost layer puts settings, addresses, pages, sockets and the API together."""
