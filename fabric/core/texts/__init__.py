"""Text from outside is made fit to be stored here, and text for people is put together."""
