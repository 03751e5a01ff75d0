"""Reads: each takes the actor, sees that actor's workspace and no other, and changes nothing."""
