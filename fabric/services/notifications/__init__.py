"""Services make notifications of events and send them."""
