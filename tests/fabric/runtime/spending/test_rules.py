"""The arithmetic of shared budgets, for any numbers: it never grants what is not there, loses nothing, and an hour is an hour."""

from hypothesis import example, given
from hypothesis import strategies as st

from fabric.core.values.units import US
from fabric.runtime.ports.spending import Entries, Reservation, SettledBy, Settlement
from fabric.runtime.spending import rules

MONEY = st.integers(0, 10**15)
HOUR_US = 3_600 * US
INSTANT = st.integers(0, 10**17)


@given(left=MONEY, enough=st.integers(1, 10**12), chunk=MONEY)
def test_a_chunk_is_enough_and_there_or_nothing(left, enough, chunk):
    amount = rules.compute_chunk(left, enough, chunk)
    assert type(amount) is int
    assert amount == 0 if left < enough else enough <= amount <= left
    if amount > enough:
        assert amount <= chunk
        assert amount * rules.SHARE <= left


@given(cap=MONEY, spent=MONEY, granted=MONEY, amount=MONEY, used=MONEY)
def test_closing_keeps_the_cap_and_accounts_for_all_that_was_used(cap, spent, granted, amount, used):
    spent = min(spent, cap)
    granted = min(granted, cap - spent)
    amount = min(amount, granted)
    done = rules.close_grant(cap - spent - granted, amount, used)
    assert done.spent + done.overrun == used
    assert done.spent >= 0
    assert done.overrun >= 0
    assert spent + done.spent + granted - amount <= cap
    assert not done.overrun or spent + done.spent + granted - amount == cap


@given(window=st.integers(0, 10**6), into=st.integers(0, rules.WINDOW_US - 1), about=st.integers(-400, 400))
@example(window=7, into=rules.WINDOW_US - 1, about=-1)
@example(window=7, into=0, about=299)
def test_what_was_spent_counts_for_an_hour_and_at_most_a_window_longer(window, into, about):
    at = window * rules.WINDOW_US + into
    later = HOUR_US + about * US
    gone = rules.has_left(rules.find_window(at), at + later)
    assert rules.find_window(at) == window * rules.WINDOW_US
    if later < HOUR_US:
        assert not gone
    if later >= HOUR_US + rules.WINDOW_US:
        assert gone


@given(st.lists(st.tuples(st.integers(0, 20).map(lambda n: n * 61 * US), st.integers(20, 100)), max_size=60))
@example([(299 * US, 100), (3_500 * US, 100)])
def test_no_hour_sees_more_than_the_cap_wherever_it_begins(steps):
    """A ledger in windows, admitting while the sum that the head carries allows; then every sliding hour is added up anew."""
    cap, now, head = 100, 0, 0
    windows: dict[int, int] = {}
    spent: list[tuple[int, int]] = []
    for passed, amount in steps:
        now += passed
        for window in [one for one in windows if rules.has_left(one, now)]:
            head -= windows.pop(window)
        assert head == sum(windows.values())
        if head + amount <= cap:
            head += amount
            windows[rules.find_window(now)] = windows.get(rules.find_window(now), 0) + amount
            spent.append((now, amount))
    for begin, _ in spent:
        assert sum(amount for at, amount in spent if begin <= at < begin + HOUR_US) <= cap


@given(
    level=st.integers(-10_000, 10_000),
    earned=st.integers(0, 5_000),
    first=st.booleans(),
    credited_at=INSTANT,
    now=INSTANT,
)
def test_a_bucket_gives_what_it_has_or_one_on_credit_down_to_its_size_below_nothing(
    level, earned, first, credited_at, now
):
    size = 10_000
    balance, gives = rules.token(level, credited_at, size=size, earned=earned, first_in_stage=first, now=now)
    assert balance == min(size, level + earned)
    assert (gives is True) == (balance >= rules.TOKEN)
    if gives is None:
        assert first
        assert now - credited_at >= rules.CREDIT_EVERY_US
        assert balance - rules.TOKEN >= -size
    if gives is False and first and now - credited_at >= rules.CREDIT_EVERY_US:
        assert balance - rules.TOKEN < -size


@given(at=INSTANT, later=st.integers(0, 200 * US))
def test_a_slot_counts_for_a_minute_and_its_place_is_free_by_then(at, later):
    slot, now = rules.find_slot(at), at + later
    counts = rules.counts_still(slot, now)
    assert counts if later < 50 * US else True
    assert not counts if later >= 70 * US else True
    if counts and rules.find_slot(now) != slot:
        assert rules.find_ring(rules.find_slot(now)) != rules.find_ring(slot)


def reservation(command, amount):
    return Reservation(run_id="r", command_id=command, attempt=1, grant_id="g", usd_micros=amount)


def settlement(command, amount):
    return Settlement(run_id="r", command_id=command, attempt=1, usd_micros=amount, reason=SettledBy.ANSWERED)


def test_a_reservation_is_settled_by_the_first_settlement_of_its_own_batch():
    given_ = Entries(
        run_id="r",
        reserved=(reservation("a", 9), reservation("b", 9)),
        settled=(settlement("a", 3), settlement("a", 4), settlement("c", 5)),
    )
    fresh, before = rules.lines(given_)
    assert [(line.reservation.command_id, line.settled_amount) for line in fresh] == [("a", 3), ("b", None)]
    assert [(one.command_id, one.usd_micros) for one in before] == [("c", 5)]
