"""Results are kept for the value that they were computed from, and for no other one."""

from __future__ import annotations

from fabric.core.values.identity_cache import KEPT, forget_results, keep_results


def test_a_result_is_computed_once_for_a_value_and_anew_for_an_equal_one():
    computed = []

    @keep_results
    def add(given: list[int], more: int) -> int:
        computed.append(more)
        return given[0] + more

    one, other = [1], [1]
    assert [add(one, 2), add(one, 2), add(other, 2), add(one, 3)] == [3, 3, 3, 4]
    assert computed == [2, 2, 3]


def test_a_new_value_never_gets_the_result_of_one_that_is_gone():
    first = keep_results(lambda given: given[0])
    assert [first([n]) for n in range(3 * KEPT)] == list(range(3 * KEPT))


def test_results_that_are_forgotten_are_computed_anew():
    computed = []
    note = keep_results(computed.append)
    given = object()
    note(given)
    forget_results()
    note(given)
    assert computed == [given, given]
