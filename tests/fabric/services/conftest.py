from tests.fabric.services.world import actor, doubtful, nudge, paying, small, store, stranger

__all__ = ["actor", "doubtful", "nudge", "paying", "small", "store", "stranger"]
