"""A member who is there, and a fabric of theirs to play scenarios in."""

from tests.simulator.drills.conftest import actor, small, stranger, vera

__all__ = ["actor", "small", "stranger", "vera"]
