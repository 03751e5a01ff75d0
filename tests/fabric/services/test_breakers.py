"""Circuit breakers by hand: opened and reset on what was seen, with a reason, told to the audit stream; and the log of their changes, pruned."""

from fabric.models import GuardChange
from fabric.services.breakers import KEPT_US, guard_changes_prune, guard_changes_to_prune

# -- afterwards --------------------------------------------------------------------------------------------------------


def test_changes_are_forgotten_after_a_week(actor):
    assert not guard_changes_to_prune()
    for at in (1, 2):
        GuardChange.objects.create(scope="provider:x", kind="circuit_breaker:y", generation=at, state="", at=at)
    assert guard_changes_to_prune()
    assert guard_changes_prune(now=KEPT_US) == 0
    assert guard_changes_prune(now=KEPT_US + 1) == 1
    assert list(GuardChange.objects.values_list("generation", flat=True)) == [2]
    assert guard_changes_prune() == 1
