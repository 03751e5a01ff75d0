"""The outermost layer: settings, pages, sockets, API. Imports everything, imported by nothing."""
