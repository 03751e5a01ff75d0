"""A conversation's page shows the order of speakers and the messages of people."""
