"""Every store of shared budgets keeps its contract (fabric/runtime/ports/spending.py): all three are asked."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.runtime.ports.spending import Budget, BudgetMissing, Grant, ReaperWork, SettledBy
from tests.fabric.stores.grant_worlds import FABRIC, HOUR, entries, reserving, settling

GONE, COMMITTED = BatchFate.GRANT_GONE, BatchFate.COMMITTED


def take(shared, grant_id, *, enough=100, chunk=100, by="host-1", scope=FABRIC):
    return shared.grants.take(by, scope, grant_id=grant_id, enough=enough, chunk=chunk)


@pytest.fixture
def capped(shared):
    """A cap of 1,000 micro-dollars and two live hosts."""
    shared.live("host-1", "host-2")
    shared.cap(1_000)
    return shared


# -- caps --------------------------------------------------------------------------------------------------------------


def test_a_cap_is_set_raised_and_left_alone_when_only_a_new_one_is_wanted(shared):
    assert shared.cap(1_000).cap == 1_000
    assert shared.cap(2_000).cap == 2_000
    left = shared.grants.set_cap(FABRIC, 5, workspace_id="workspace-1", only_new=True)
    assert (left.scope, left.cap, left.spent, left.granted, left.overrun) == (FABRIC, 2_000, 0, 0, 0)
    assert (left.grantable, left.hourly) == (2_000, False)
    assert shared.grants.budgets(["nowhere"]) == []


def test_a_scope_without_a_cap_is_named(shared):
    shared.live("host-1")
    with pytest.raises(BudgetMissing, match="'fabric:one' has no budget: set its cap"):
        take(shared, "grant-1")


def test_a_cap_lowered_below_what_is_granted_holds_from_then_on(capped):
    take(capped, "grant-1", enough=600, chunk=600)
    capped.cap(500)
    assert (capped.budget().cap, capped.budget().grantable) == (500, 0)
    assert isinstance(take(capped, "grant-2", enough=1), Budget)
    capped.grants.keep("host-1", {"grant-1": 450})
    assert take(capped, "grant-3", enough=50, chunk=50) == Grant("grant-3", FABRIC, 50)
    assert isinstance(take(capped, "grant-4", enough=1), Budget)


def test_a_lowered_cap_stays_lowered_when_money_comes_back(capped):
    take(capped, "grant-1", enough=900, chunk=900)
    capped.cap(100)
    assert capped.grants.close("host-1", ["grant-1"]) == ["grant-1"]
    assert capped.budget().grantable == 100
    assert isinstance(take(capped, "grant-2", enough=101), Budget)


# -- taking ------------------------------------------------------------------------------------------------------------


def test_a_grant_is_a_share_of_what_is_left_but_at_least_one_reservation(capped):
    assert take(capped, "grant-1", enough=10, chunk=500) == Grant("grant-1", FABRIC, 50)
    assert take(capped, "grant-2", enough=10, chunk=20) == Grant("grant-2", FABRIC, 20)
    assert take(capped, "grant-3", enough=300, chunk=1_200) == Grant("grant-3", FABRIC, 300)
    assert capped.stands() == (0, 370, 0)


def test_what_does_not_fit_is_refused_with_where_the_budget_stands(capped):
    take(capped, "grant-1", enough=900, chunk=900)
    refused = take(capped, "grant-2", enough=101)
    assert isinstance(refused, Budget)
    assert (refused.cap, refused.spent, refused.granted, refused.grantable) == (1_000, 0, 900, 100)
    assert take(capped, "grant-3", enough=100) == Grant("grant-3", FABRIC, 100)
    assert capped.stands() == (0, 1_000, 0)


def test_a_grant_asked_for_again_is_the_same_one(capped):
    first = take(capped, "grant-1", enough=10, chunk=500)
    assert take(capped, "grant-1", enough=10, chunk=500) == first
    assert take(capped, "grant-1", enough=2_000) == first
    assert capped.stands() == (0, 50, 0)


def test_an_incarnation_without_a_lease_gets_nothing(capped):
    capped.dies("host-1")
    for name in ("host-1", "nobody"):
        with pytest.raises(StoreUnavailable, match=f"'{name}' has no lease"):
            take(capped, "grant-1", by=name)
    assert capped.stands() == (0, 0, 0)


def test_many_at_once_never_take_more_than_there_is(capped):
    stores = [capped.another() for _ in range(4)]

    def one(number):
        return stores[number % 4].take("host-1", FABRIC, grant_id=f"grant-{number}", enough=30, chunk=30)

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(one, range(64)))
    granted = [one for one in found if isinstance(one, Grant)]
    assert sum(one.amount for one in granted) == 990 == capped.stands()[1]
    assert len(found) - len(granted) == 64 - 33


# -- reservations ------------------------------------------------------------------------------------------------------


def test_a_reservation_is_settled_once(capped):
    take(capped, "grant-1")
    assert capped.grants.reserve([entries(reserving("grant-1", 60))]) == [COMMITTED]
    assert capped.grants.reserve([entries(settling(25))]) == [COMMITTED]
    assert capped.grants.reserve([entries(settling(40, reason=SettledBy.UNKNOWN))]) == [COMMITTED]
    (held,) = capped.grants.list_reservations("grant-1")
    assert (held.usd_micros, held.settled, held.reason) == (60, 25, "answered")


def test_an_unknown_outcome_is_settled_at_the_worst_case_with_its_reason(capped):
    take(capped, "grant-1")
    capped.grants.reserve([entries(reserving("grant-1", 60))])
    capped.grants.reserve([entries(settling(None, reason=SettledBy.UNKNOWN))])
    (held,) = capped.grants.list_reservations("grant-1")
    assert (held.settled, held.reason) == (60, "unknown")


def test_one_settlement_settles_the_attempt_in_each_scope_and_no_other_attempt(capped):
    capped.cap(5_000, "workspace:one")
    take(capped, "grant-1")
    take(capped, "grant-2", scope="workspace:one")
    capped.grants.reserve([entries(reserving("grant-1", 60), reserving("grant-2", 60))])
    capped.grants.reserve([entries(reserving("grant-1", 30, attempt=2))])
    capped.grants.reserve([entries(settling(10))])
    assert [(one.attempt, one.settled) for one in capped.grants.list_reservations("grant-1")] == [(1, 10), (2, None)]
    assert [(one.attempt, one.settled) for one in capped.grants.list_reservations("grant-2")] == [(1, 10)]


def test_a_call_that_is_given_up_in_the_batch_that_issues_it_is_settled_with_it(capped):
    take(capped, "grant-1")
    batch = entries(reserving("grant-1", 60), settling(0, reason=SettledBy.NOT_SENT))
    assert capped.grants.reserve([batch]) == [COMMITTED]
    (held,) = capped.grants.list_reservations("grant-1")
    assert (held.settled, held.reason) == (0, "not_sent")


def test_a_batch_written_again_changes_nothing(capped):
    take(capped, "grant-1")
    for _ in range(2):
        assert capped.grants.reserve([entries(reserving("grant-1", 60))]) == [COMMITTED]
    capped.grants.reserve([entries(settling(25))])
    assert capped.grants.reserve([entries(reserving("grant-1", 99))]) == [COMMITTED]
    assert [(one.usd_micros, one.settled) for one in capped.grants.list_reservations("grant-1")] == [(60, 25)]


def test_a_reservation_on_a_grant_that_is_not_open_is_refused_with_its_batch_and_only_that_one(capped):
    take(capped, "grant-1")
    take(capped, "grant-2")
    capped.grants.close("host-1", ["grant-1"])
    capped.grants.reserve([entries(reserving("grant-2", 10, run="run-3"))])
    mixed = entries(reserving("grant-2", 5), reserving("grant-1", 5, command="call-2"), settling(1, command="call-0"))
    other = entries(reserving("grant-2", 7, run="run-2"))
    last = entries(settling(3, run="run-3"))
    nowhere = entries(reserving("no-such-grant", 1, run="run-4"))
    assert capped.grants.reserve([mixed, other, last, nowhere]) == [GONE, COMMITTED, COMMITTED, GONE]
    assert [(one.run_id, one.settled) for one in capped.grants.list_reservations("grant-2")] == [
        ("run-2", None),
        ("run-3", 3),
    ]
    assert capped.grants.list_reservations("grant-1") == []


def test_two_entries_of_one_run_at_once_are_a_mistake(capped):
    with pytest.raises(ValueError, match="two entries of one run"):
        capped.grants.reserve([entries(settling(1)), entries(settling(2))])
    assert capped.grants.reserve([]) == []


# -- closing -----------------------------------------------------------------------------------------------------------


def test_a_closed_grant_gives_what_was_used_to_the_budget_and_the_rest_back(capped):
    take(capped, "grant-1")
    capped.grants.reserve([entries(reserving("grant-1", 60), reserving("grant-1", 20, command="call-2"))])
    capped.grants.reserve([entries(settling(25), settling(None, command="call-2", reason=SettledBy.UNKNOWN))])
    assert capped.grants.close("host-1", ["grant-1"]) == ["grant-1"]
    assert capped.stands() == (45, 0, 0)
    assert capped.grants.close("host-1", ["grant-1"]) == ["grant-1"]
    assert capped.stands() == (45, 0, 0)


def test_a_grant_with_an_open_reservation_is_closed_when_that_is_settled(capped):
    take(capped, "grant-1")
    capped.grants.reserve([entries(reserving("grant-1", 60))])
    assert capped.grants.close("host-1", ["grant-1"]) == []
    assert capped.stands() == (0, 100, 0)
    assert capped.grants.reserve([entries(reserving("grant-1", 10, run="run-2"))]) == [GONE]
    capped.grants.reserve([entries(settling(60))])
    assert capped.grants.close("host-1", ["grant-1"]) == ["grant-1"]
    assert capped.stands() == (60, 0, 0)


def test_only_its_holder_closes_or_lowers_a_grant(capped):
    take(capped, "grant-1")
    assert capped.grants.close("host-2", ["grant-1", "no-such-grant"]) == []
    capped.grants.keep("host-2", {"grant-1": 0})
    assert capped.stands() == (0, 100, 0)
    assert capped.grants.reserve([entries(reserving("grant-1", 100))]) == [COMMITTED]


def test_what_a_call_cost_above_its_reservation_takes_what_the_cap_has_left_and_only_the_rest_is_overrun(capped):
    take(capped, "grant-1", enough=900, chunk=900)
    take(capped, "grant-2", enough=50)
    capped.grants.reserve([entries(reserving("grant-1", 900))])
    capped.grants.reserve([entries(settling(970))])
    assert capped.grants.close("host-1", ["grant-1"]) == ["grant-1"]
    assert capped.stands() == (950, 50, 20)


@pytest.mark.parametrize("by_reaper", [False, True])
def test_of_grants_closed_together_what_one_left_covers_what_another_cost_above_its_own(capped, by_reaper):
    for name, worst, cost in (("grant-1", 500, 560), ("grant-2", 100, 90)):
        take(capped, name, enough=500, chunk=500)
        call = {"run": f"run-{name}", "command": name}
        capped.grants.reserve([entries(reserving(name, worst, **call))])
        capped.grants.reserve([entries(settling(cost, **call))])
    if by_reaper:
        capped.dies("host-1")
        assert capped.grants.reap() == ReaperWork(2, 0)
    else:
        assert capped.grants.close("host-1", ["grant-1", "grant-2"]) == ["grant-1", "grant-2"]
    assert capped.stands() == (650, 0, 0)


def test_grants_of_several_scopes_are_closed_together(capped):
    capped.cap(5_000, "workspace:one")
    names = [f"grant-{number}" for number in range(6)]
    for number, name in enumerate(names):
        take(capped, name, scope=FABRIC if number % 2 else "workspace:one")
        run = f"run-{number}"
        capped.grants.reserve([entries(reserving(name, 50, run=run))])
        capped.grants.reserve([entries(settling(number + 1, run=run))])
    assert capped.grants.close("host-1", names) == names
    assert (capped.stands(), capped.stands("workspace:one")) == ((12, 0, 0), (9, 0, 0))


def test_a_grant_is_lowered_to_an_amount_however_often_it_is_said(capped):
    take(capped, "grant-1")
    take(capped, "grant-2")
    for _ in range(2):
        capped.grants.keep("host-1", {"grant-1": 30, "grant-2": 130, "no-such-grant": 1})
    assert capped.stands() == (0, 130, 0)
    capped.grants.keep("host-1", {"grant-1": -1})
    assert capped.stands() == (0, 130, 0)
    assert capped.grants.close("host-1", ["grant-1", "grant-2"]) == ["grant-1", "grant-2"]
    assert capped.stands() == (0, 0, 0)


def test_what_others_hold_and_have_not_reserved_is_asked_back(capped):
    take(capped, "grant-1", enough=400, chunk=400)
    take(capped, "grant-2", enough=300, by="host-2")
    capped.grants.reserve([entries(reserving("grant-1", 150), reserving("grant-1", 50, command="call-2"))])
    capped.grants.reserve([entries(settling(100))])
    assert capped.grants.reclaim("host-2", FABRIC) == 250
    assert (capped.grants.list_wanted("host-1"), capped.grants.list_wanted("host-2")) == (["grant-1"], [])
    capped.grants.keep("host-1", {"grant-1": 150})
    assert capped.grants.list_wanted("host-1") == []
    assert capped.grants.reclaim("host-2", FABRIC) == 0
    assert take(capped, "grant-3", enough=550, by="host-2") == Grant("grant-3", FABRIC, 550)


# -- the reaper --------------------------------------------------------------------------------------------------------


def test_the_grants_of_the_dead_are_settled_and_no_others(capped):
    take(capped, "grant-1")
    take(capped, "grant-2", by="host-2")
    capped.grants.reserve([entries(reserving("grant-1", 60)), entries(reserving("grant-2", 60, run="run-2"))])
    capped.grants.reserve([entries(reserving("grant-1", 20, run="run-3"), settling(5, run="run-3"))])
    assert capped.grants.reap() == ReaperWork(0, 0)
    capped.dies("host-1")
    assert capped.grants.reap() == ReaperWork(1, 1)
    assert capped.grants.reap() == ReaperWork(0, 0)
    assert capped.stands() == (65, 100, 0)
    found = {(one.run_id, one.settled, one.reason) for one in capped.grants.list_reservations("grant-1")}
    assert found == {("run-1", 60, "reaped"), ("run-3", 5, "answered")}
    assert [one.settled for one in capped.grants.list_reservations("grant-2")] == [None]


def test_a_lapsed_lease_is_enough(capped):
    capped.live("host-3", lease_s=10)
    take(capped, "grant-1", by="host-3")
    assert capped.grants.reap() == ReaperWork(0, 0)
    capped.pass_time(11)
    assert capped.grants.reap() == ReaperWork(1, 0)
    assert capped.stands() == (0, 0, 0)


def test_a_living_owner_whose_grant_was_reaped_can_neither_reserve_from_it_nor_settle_anew(capped):
    take(capped, "grant-1")
    capped.grants.reserve([entries(reserving("grant-1", 60))])
    capped.dies("host-1")
    capped.grants.reap()
    assert capped.grants.reserve([entries(reserving("grant-1", 10, run="run-2"))]) == [GONE]
    assert capped.grants.reserve([entries(settling(5))]) == [COMMITTED]
    assert capped.stands() == (60, 0, 0)
    assert [one.settled for one in capped.grants.list_reservations("grant-1")] == [60]


def test_a_grant_that_its_owner_was_closing_when_it_died_is_reaped(capped):
    take(capped, "grant-1")
    capped.grants.reserve([entries(reserving("grant-1", 60))])
    capped.grants.close("host-1", ["grant-1"])
    capped.dies("host-1")
    assert capped.grants.reap() == ReaperWork(1, 1)
    assert capped.stands() == (60, 0, 0)


def test_several_reapers_at_once_settle_each_grant_once(capped):
    for number in range(8):
        take(capped, f"grant-{number}", enough=50)
        capped.grants.reserve([entries(reserving(f"grant-{number}", 10, run=f"run-{number}"))])
    capped.dies("host-1")
    stores = [capped.another() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        reaped = list(pool.map(lambda store: store.reap(), stores))
    reaped.append(capped.grants.reap())
    assert (sum(one.grants for one in reaped), sum(one.reservations for one in reaped)) == (8, 8)
    assert capped.stands() == (80, 0, 0)


def test_a_grant_that_its_living_owner_is_closing_is_closed_by_a_reaper_once_all_of_it_is_settled(capped):
    take(capped, "grant-1")
    capped.grants.reserve([entries(reserving("grant-1", 60))])
    capped.grants.close("host-1", ["grant-1"])
    assert capped.grants.reap() == ReaperWork(0, 0)
    capped.grants.reserve([entries(settling(10))])
    assert capped.grants.reap() == ReaperWork(1, 0)
    assert capped.stands() == (10, 0, 0)


# -- an hour's money ---------------------------------------------------------------------------------------------------


def spend(shared, name, amount):
    found = take(shared, name, enough=amount, chunk=amount)
    if isinstance(found, Budget):
        return found
    shared.grants.reserve([entries(reserving(name, amount, run=name))])
    shared.grants.reserve([entries(settling(amount, run=name))])
    shared.grants.close("host-1", [name])
    return found


def test_what_was_spent_leaves_an_hourly_budget_when_all_of_its_window_is_an_hour_old(shared):
    shared.live("host-1")
    shared.cap(100, hourly=True)
    assert isinstance(spend(shared, "grant-1", 60), Grant)
    shared.pass_time(HOUR - 1)
    assert (shared.stands(), shared.budget().hourly) == ((60, 0, 0), True)
    assert isinstance(spend(shared, "grant-2", 41), Budget)
    assert isinstance(spend(shared, "grant-3", 40), Grant)
    shared.pass_time(301)
    assert shared.stands() == (40, 0, 0)
    assert isinstance(spend(shared, "grant-4", 61), Budget)
    assert isinstance(spend(shared, "grant-5", 60), Grant)
    shared.pass_time(2 * HOUR)
    assert shared.stands() == (0, 0, 0)
    assert isinstance(spend(shared, "grant-6", 100), Grant)


def test_a_budget_that_is_not_hourly_forgets_nothing(capped):
    spend(capped, "grant-1", 1_000)
    capped.pass_time(30 * HOUR)
    assert isinstance(spend(capped, "grant-2", 1), Budget)


WRITERS = {
    "take": lambda shared: take(shared, "grant-4", enough=70, chunk=70),
    "keep": lambda shared: shared.grants.keep("host-1", {"grant-2": 4}),
    "close": lambda shared: shared.grants.close("host-1", ["grant-3"]),
}


@pytest.mark.parametrize(("writer", "stands"), [("take", (0, 100, 0)), ("keep", (0, 24, 0)), ("close", (8, 10, 0))])
def test_windows_leave_with_whatever_writes_the_budget_first(shared, writer, stands):
    shared.live("host-1")
    shared.cap(100, hourly=True)
    spend(shared, "grant-1", 70)
    take(shared, "grant-2", enough=10, chunk=10)
    take(shared, "grant-3", enough=20, chunk=20)
    shared.grants.reserve([entries(reserving("grant-3", 20))])
    shared.grants.reserve([entries(settling(8))])
    shared.pass_time(HOUR + 301)
    WRITERS[writer](shared)
    assert shared.stands() == stands
    shared.pass_time(2 * HOUR)
    assert shared.stands() == (0, stands[1], 0)
