"""A call is proposed, ordered, judged and issued here."""
