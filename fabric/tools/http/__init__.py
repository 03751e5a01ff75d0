"""Tools call HTTP endpoints and read web pages."""
