from tests.fabric.services.world import actor, doubtful, nudge, small, store, stranger

__all__ = ["actor", "doubtful", "nudge", "small", "store", "stranger"]
