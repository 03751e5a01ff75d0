"""Every store of retry tokens and guard rows keeps its contract (fabric/runtime/ports/spending.py): all three are asked."""

import os
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from fabric.runtime.ports.spending import SignalCount, TokenAsk, TokensLeft

FABRIC, PROVIDER = "fabric:one", "provider:scripted"
KEY = (PROVIDER, "circuit_breaker")
SIZE = 2_000
CALLERS = int(os.environ.get("FABRIC_GUARD_CALLERS", "8"))
CYCLES = int(os.environ.get("FABRIC_GUARD_CYCLES", "25"))
"""64 and 1,000 for docs/figures.md."""


def ask(scope=FABRIC, earned=0):
    return TokenAsk(scope, SIZE, earned)


def counted(signal, n=1, generation=0, **changed):
    return SignalCount(scope=PROVIDER, kind="circuit_breaker", generation=generation, signal=signal, n=n, **changed)


def row(shared):
    (found,) = shared.guards.guards([KEY])
    return found


def change(shared, generation, state, holder=""):
    return shared.guards.change(*KEY, generation=generation, state=state, holder=holder)


def permit(shared, generation, holder, for_s=10.0, most=1):
    return shared.guards.permit(*KEY, generation=generation, holder=holder, for_s=for_s, most=most)


def give_up(shared, holder):
    return shared.guards.give_up(*KEY, holder=holder)


# -- retry tokens ------------------------------------------------------------------------------------------------------


def test_a_bucket_starts_full_and_a_retry_takes_one(shared):
    assert shared.guards.retry([ask()], first_in_stage=False) == TokensLeft(True, {FABRIC: 1_000})
    assert shared.guards.retry([ask()], first_in_stage=False) == TokensLeft(True, {FABRIC: 0})
    assert shared.guards.retry([ask()], first_in_stage=False) == TokensLeft(False, {FABRIC: 0})


def test_first_attempts_earn_up_to_the_size_and_what_is_earned_stays_when_the_retry_is_denied(shared):
    for _ in range(2):
        shared.guards.retry([ask()], first_in_stage=False)
    assert shared.guards.retry([ask(earned=600)], first_in_stage=False) == TokensLeft(False, {FABRIC: 600})
    assert shared.guards.retry([ask(earned=600)], first_in_stage=False) == TokensLeft(True, {FABRIC: 200})
    shared.guards.earn([ask(earned=50_000)])
    assert shared.guards.retry([ask()], first_in_stage=False) == TokensLeft(True, {FABRIC: 1_000})
    shared.guards.earn([ask("fabric:new", 500)])
    assert shared.guards.retry([ask("fabric:new")], first_in_stage=False).levels == {"fabric:new": 1_000}


def test_each_bucket_gives_its_token_or_none_does(shared):
    both = [ask(PROVIDER), ask()]
    assert shared.guards.retry([ask()], first_in_stage=False).given
    assert shared.guards.retry(both, first_in_stage=False) == TokensLeft(True, {PROVIDER: 1_000, FABRIC: 0})
    assert shared.guards.retry(both, first_in_stage=False) == TokensLeft(False, {PROVIDER: 1_000, FABRIC: 0})


def test_one_a_second_is_free_for_a_run_that_has_not_retried_in_this_stage_down_to_the_size_below_nothing(shared):
    for _ in range(2):
        shared.guards.retry([ask()], first_in_stage=True)
    assert shared.guards.retry([ask()], first_in_stage=True) == TokensLeft(True, {FABRIC: -1_000})
    assert not shared.guards.retry([ask()], first_in_stage=True).given
    shared.pass_time(1.1)
    assert not shared.guards.retry([ask()], first_in_stage=False).given
    assert shared.guards.retry([ask()], first_in_stage=True) == TokensLeft(True, {FABRIC: -2_000})
    shared.pass_time(1.1)
    assert not shared.guards.retry([ask()], first_in_stage=True).given
    assert shared.guards.retry([ask(earned=1_000)], first_in_stage=True) == TokensLeft(True, {FABRIC: -2_000})


def test_many_retries_at_once_take_no_more_than_there_is(shared):
    stores = [shared.another_guards() for _ in range(4)]
    with ThreadPoolExecutor(16) as pool:
        both = [ask(PROVIDER), ask()]
        found = list(pool.map(lambda n: stores[n % 4].retry(both, first_in_stage=False), range(32)))
    assert sum(one.given for one in found) == 2
    assert min(one.levels[FABRIC] for one in found) == 0


WORKERS, FULL = 8, 10_000
BUCKETS = (FABRIC, PROVIDER)


def workers(shared):
    return [shared.another_guards() for _ in range(WORKERS)]


def outage(stores, firsts, retries):
    """Every worker makes so many first attempts and then tries so many retries, each the first of its run in this stage: the levels of those given."""

    def work(store):
        earned = [TokenAsk(scope, FULL, 100 * firsts) for scope in BUCKETS]
        found = [store.retry(earned, first_in_stage=True)]
        asks = [TokenAsk(scope, FULL) for scope in BUCKETS]
        found += [store.retry(asks, first_in_stage=True) for _ in range(retries - 1)]
        return [one.levels for one in found if one.given]

    with ThreadPoolExecutor(WORKERS) as pool:
        return [levels for given in pool.map(work, stores) for levels in given]


def test_the_retries_of_many_workers_are_at_most_twenty_and_a_tenth_of_their_first_attempts(shared):
    """docs/specification/protections.md: 10 tokens, +0.1 a first attempt, credit at most once a second and down to -10; for all callers at once."""
    given, firsts, stores = 0, 0, workers(shared)
    for _ in range(6):
        given += len(outage(stores, firsts=7, retries=4))
        firsts += 7 * WORKERS
        assert given <= 20 + 0.1 * firsts
        shared.pass_time(1.1)
    assert given > 20, "what was earned was given"


def test_workers_get_one_on_credit_a_second_between_them_until_the_bucket_stands_at_minus_ten(shared):
    stores = workers(shared)
    begun, given = monotonic(), outage(stores, firsts=0, retries=4)
    for second in range(12):
        on_credit, elapsed_s = len(given) - 10, 1.1 * second + monotonic() - begun
        assert min(second + 1, 10) <= on_credit <= 1 + elapsed_s
        shared.pass_time(1.1)
        given += outage(stores, firsts=0, retries=2)
    assert sorted(levels[FABRIC] for levels in given) == list(range(-FULL, FULL, 1_000)), "each level once"
    assert shared.guards.retry([TokenAsk(FABRIC, FULL)], first_in_stage=True) == TokensLeft(False, {FABRIC: -FULL})


# -- guard rows --------------------------------------------------------------------------------------------------------


def test_a_row_that_was_never_changed_has_generation_nought(shared):
    found = row(shared)
    assert (found.scope, found.kind, found.state, found.generation, found.counts) == (*KEY, "", 0, {})
    assert not permit(shared, 0, "prober")


def test_a_change_takes_the_generation_that_was_seen_and_no_other(shared):
    assert not change(shared, 1, "open")
    assert change(shared, 0, "open")
    assert not change(shared, 0, "closed")
    assert change(shared, 1, "half_open")
    found = row(shared)
    assert (found.state, found.generation) == ("half_open", 2)
    assert found.changed_at <= found.asked_at


def test_each_change_that_was_made_is_logged_once_and_none_that_was_not(shared):
    assert shared.guards.changes(*KEY) == []
    change(shared, 1, "never")
    change(shared, 0, "open")
    first = row(shared).changed_at
    change(shared, 0, "stale")
    shared.another_guards().change(*KEY, generation=1, state="half_open")
    change(shared, 2, "closed", holder="nobody")
    shared.guards.change("provider:other", KEY[1], generation=0, state="open")
    permit(shared, 2, "prober")
    change(shared, 2, "closed", holder="prober")
    logged = shared.guards.changes(*KEY)
    assert [(one.generation, one.state) for one in logged] == [(1, "open"), (2, "half_open"), (3, "closed")]
    assert (logged[0].at, logged[-1].at) == (first, row(shared).changed_at)


def test_counts_add_up_over_processes_and_end_with_their_generation(shared):
    other = shared.another_guards()
    shared.guards.tell([counted("failed", 2), counted("ok")])
    other.tell([counted("failed", 3)])
    assert row(shared).counts == {"failed": 5, "ok": 1}
    change(shared, 0, "open")
    assert row(shared).counts == {}
    shared.guards.tell([counted("failed", 7), counted("failed", 1, generation=1)])
    assert row(shared).counts == {"failed": 1}


def test_a_streak_begins_anew_when_it_is_broken(shared):
    shared.guards.tell([counted("streak", 4)])
    shared.guards.tell([counted("streak", 1, reset=True)])
    shared.guards.tell([counted("streak", 2)])
    assert row(shared).counts == {"streak": 3}
    shared.guards.tell([counted("streak", 0, reset=True)])
    assert row(shared).counts == {"streak": 0}


def test_a_windowed_count_is_of_the_last_minute(shared):
    shared.guards.tell([counted("failed", 5, windowed=True), counted("ok", 1)])
    shared.pass_time(40)
    shared.guards.tell([counted("failed", 2, windowed=True)])
    assert row(shared).counts == {"failed": 7, "ok": 1}
    shared.pass_time(30)
    assert row(shared).counts == {"failed": 2, "ok": 1}
    shared.pass_time(50)
    shared.guards.tell([counted("failed", 1, windowed=True)])
    assert row(shared).counts == {"failed": 1, "ok": 1}


def test_rows_come_in_the_order_they_were_asked_for(shared):
    change(shared, 0, "open")
    found = shared.guards.guards([("other", "x"), KEY])
    assert [(one.scope, one.state) for one in found] == [("other", ""), (PROVIDER, "open")]


def test_the_permit_is_one_and_comes_back_by_expiry_or_when_it_is_given_up(shared):
    change(shared, 0, "half_open")
    assert permit(shared, 1, "first")
    assert not permit(shared, 1, "second")
    assert list(row(shared).permits) == ["first"]
    shared.pass_time(11)
    assert permit(shared, 1, "second")
    assert not give_up(shared, "first")
    assert not change(shared, 1, "closed", holder="first")
    assert give_up(shared, "second")
    assert not give_up(shared, "")
    assert permit(shared, 1, "third")
    assert not permit(shared, 2, "fourth")
    assert change(shared, 1, "closed", holder="third")
    assert (row(shared).generation, row(shared).permits) == (2, {})


@pytest.mark.parametrize("most", [2, 3, 16])
def test_as_many_permits_are_out_as_may_be_and_not_one_more(shared, most):
    change(shared, 0, "half_open")
    assert [permit(shared, 1, f"p{n}", most=most) for n in range(most + 1)] == [True] * most + [False]
    assert set(row(shared).permits) == {f"p{n}" for n in range(most)}
    assert not permit(shared, 1, "p0", most=most + 1), "the holder of one gets no second"
    assert give_up(shared, "p1")
    assert not give_up(shared, "p1")
    assert permit(shared, 1, "heir", most=most)
    assert not permit(shared, 1, "p1", most=most)


def test_each_permit_expires_by_itself(shared):
    change(shared, 0, "half_open")
    assert permit(shared, 1, "long", for_s=100, most=2)
    assert permit(shared, 1, "died", for_s=10, most=2)
    shared.pass_time(9)
    assert not permit(shared, 1, "early", most=2)
    shared.pass_time(2)
    assert permit(shared, 1, "heir", most=2)
    assert not permit(shared, 1, "third", most=2)
    assert set(row(shared).permits) == {"long", "heir"}
    assert not change(shared, 1, "closed", holder="died")


def test_a_change_that_keeps_permits_takes_its_own_holders_alone(shared):
    change(shared, 0, "half_open")
    for holder in ("a", "b", "c"):
        assert permit(shared, 1, holder, most=3)
    assert shared.guards.change(*KEY, generation=1, state="half_open, one passed", holder="a", keeps=True)
    assert (row(shared).generation, set(row(shared).permits)) == (2, {"b", "c"})
    assert not permit(shared, 1, "late", most=3), "of a generation that is over"
    assert permit(shared, 2, "d", most=3)
    assert not permit(shared, 2, "e", most=3)
    assert not shared.guards.change(*KEY, generation=2, state="closed", holder="a", keeps=True)
    assert shared.guards.change(*KEY, generation=2, state="open", keeps=True)
    assert set(row(shared).permits) == {"b", "c", "d"}
    assert shared.guards.change(*KEY, generation=3, state="closed", holder="b")
    assert row(shared).permits == {}
    assert [one.state for one in shared.guards.changes(*KEY)][-3:] == ["half_open, one passed", "open", "closed"]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_of_many_contenders_exactly_so_many_get_a_permit(shared, most):
    """All ask at once, many times over; each round's permits come back: given up, or run out with a caller that died."""
    stores = [shared.another_guards() for _ in range(min(8, CALLERS))]
    change(shared, 0, "half_open")
    with ThreadPoolExecutor(CALLERS) as pool:
        for cycle in range(CYCLES):

            def asks(caller, cycle=cycle):
                asked = {"generation": 1, "holder": f"{cycle}.{caller}", "for_s": 30.0, "most": most}
                return caller if stores[caller % len(stores)].permit(*KEY, **asked) else None

            won = [f"{cycle}.{one}" for one in pool.map(asks, range(CALLERS)) if one is not None]
            assert len(won) == most
            assert set(row(shared).permits) >= set(won)
            if cycle % 3 == 0:
                shared.pass_time(31)
                continue
            assert all(pool.map(lambda holder: stores[0].give_up(*KEY, holder=holder), won))


def test_of_many_callers_one_probes_in_each_cycle_and_what_is_stale_changes_nothing(shared):
    """Open, half-open, a probe; every third prober crashes, and its permit expires."""
    stores = [shared.another_guards() for _ in range(min(8, CALLERS))]
    probes, stale = [], 0
    assert change(shared, 0, "open")
    with ThreadPoolExecutor(CALLERS) as pool:
        generation = 1
        for cycle in range(CYCLES):
            assert change(shared, generation, "half_open")
            generation += 1
            probing = [
                pool.submit(
                    stores[caller % len(stores)].permit, *KEY, generation=generation, holder=f"c{caller}", for_s=30.0
                )
                for caller in range(CALLERS)
            ]
            won = [f"c{caller}" for caller, one in enumerate(probing) if one.result()]
            probes.append(len(won))
            holder = won[0]
            if cycle % 3 == 0:
                shared.pass_time(31)
                assert permit(shared, generation, "heir", 30.0)
                assert not change(shared, generation, "closed", holder=holder)
                holder = "heir"
            late = [
                pool.submit(stores[caller % len(stores)].change, *KEY, generation=generation - 1, state="late")
                for caller in range(CALLERS)
            ]
            assert change(shared, generation, "open", holder=holder)
            generation += 1
            stale += sum(one.result() for one in late)
    assert probes == [1] * CYCLES
    assert stale == 0
    assert (row(shared).state, row(shared).generation) == ("open", 1 + 2 * CYCLES)


@pytest.mark.parametrize("callers", [16])
def test_of_many_changes_at_once_one_counts(shared, callers):
    stores = [shared.another_guards() for _ in range(4)]
    with ThreadPoolExecutor(callers) as pool:
        first = list(pool.map(lambda n: stores[n % 4].change(*KEY, generation=0, state="open"), range(callers)))
        second = list(pool.map(lambda n: stores[n % 4].change(*KEY, generation=1, state="shut"), range(callers)))
    assert (sum(first), sum(second)) == (1, 1)
    assert row(shared).generation == 2
    assert [one.state for one in shared.guards.changes(*KEY)] == ["open", "shut"]
