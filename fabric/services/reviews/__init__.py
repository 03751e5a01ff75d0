"""Services answer reviews, assign them, reveal contents and close follow-ups."""
