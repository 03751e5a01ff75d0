"""Each provider's rules refuse a request in that provider's words."""
