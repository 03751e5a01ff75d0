"""Each quirk makes the endpoint answer in an odd form."""
