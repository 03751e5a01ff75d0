"""The overview finds each kind of trouble, puts the worst first, and leaves alone what is in order."""

from __future__ import annotations

import pytest

from fabric.core.events.decisions import CapRaised
from fabric.models import Run
from fabric.selectors.models.breakers import list_breaker_views
from fabric.selectors.overview import attention as module
from fabric.selectors.overview import failures
from fabric.selectors.overview.attention import AttentionKind, attention, review_queue
from fabric.services.runs.stops import stop_new_runs
from tests.fabric.selectors.journals import Teller, write
from tests.fabric.selectors.models.breaker_rows import STOPPED, change, guarded
from tests.fabric.selectors.overview.test_tiles import plans_of
from tests.fabric.selectors.rows import MINUTE, NOW, review_row, run_row, worker_row
from tests.fabric.services.notifications.scenes import notification_row


def kinds(actor) -> list[AttentionKind]:
    return [group.kind for group in attention(actor, NOW).groups]


@pytest.fixture
def trouble(actor, small) -> None:
    """One of everything, with a worker alive."""
    worker_row()
    review_row(actor, run_row(actor, small, "waiting"), -1, "late")
    review_row(actor, run_row(actor, small, "waiting"), 20, "soon")
    review_row(actor, run_row(actor, small, "waiting"), 90, "later")
    run_row(actor, small, "quarantined")
    run_row(actor, small, "failed", asked=3_000, ended=1_439)
    run_row(actor, small, "running", cost_usd_micros=800_000)
    run_row(actor, small, "running", asked=54)
    run_row(actor, small, "running", claims=3)
    notification_row(actor, run_row(actor, small, "completed", ended=1).id)
    run_row(actor, small, "queued", asked=2)
    stop_new_runs(actor=actor, fabric=small, reason="The provider complains.")


def test_the_most_harmful_is_first(actor, trouble):
    assert kinds(actor) == [
        kind for kind in AttentionKind if kind not in (AttentionKind.NO_WORKER, AttentionKind.BREAKER)
    ]
    assert all(group.count == 1 for group in attention(actor, NOW).groups)


def test_each_thing_is_named_with_its_numbers(actor, trouble):
    found = {group.kind: group.items[0] for group in attention(actor, NOW).groups}
    assert (found[AttentionKind.OVERDUE].review, found[AttentionKind.DUE_SOON].review) == ("late", "soon")
    assert (found[AttentionKind.NEAR_CEILING].observed, found[AttentionKind.NEAR_CEILING].limit) == (800_000, 1_000_000)
    assert found[AttentionKind.NO_PROGRESS].observed == 3
    assert found[AttentionKind.FAILED].state == "failed"
    assert (found[AttentionKind.UNTOLD].title, found[AttentionKind.UNTOLD].reason) == (
        "https://hooks.example.org",
        "https://hooks.example.org answered HTTP 410",
    )
    assert found[AttentionKind.STOPPED].reason == "owner: The provider complains."
    assert {item.fabric_name for item in found.values()} == {"small"}


def test_what_is_in_order_is_left_alone(actor, small):
    worker_row()
    review_row(actor, run_row(actor, small, "waiting", asked=59), 61)
    review_row(actor, run_row(actor, small, "waiting"), -1, "answered", decided_at=NOW)
    run_row(actor, small, "failed", asked=3_000, ended=1_441)
    notification_row(actor, run_row(actor, small, "completed", ended=1).id, "sent")
    run_row(actor, small, "cancelled", ended=1)
    run_row(actor, small, "running", cost_usd_micros=799_999, claims=2)
    run_row(actor, small, "running", asked=53)
    run_row(actor, small, "queued", asked=0.9)
    assert kinds(actor) == []


def test_a_run_that_waits_for_a_person_has_time(actor, small):
    worker_row()
    run_row(actor, small, "waiting", asked=59)
    assert kinds(actor) == []


def test_without_a_worker_that_is_what_is_said(actor, small):
    (group,) = attention(actor, NOW).groups
    assert (group.kind, group.count, group.items[0].observed) == (AttentionKind.NO_WORKER, 1, 0)
    worker_row("lapsed", lease=-1)
    run_row(actor, small, "queued", asked=9)
    run_row(actor, small, "running", asked=3)
    run_row(actor, small, "waiting", asked=3)
    (group,) = attention(actor, NOW).groups
    assert (group.kind, group.items[0].observed) == (AttentionKind.NO_WORKER, 2)


def test_a_breaker_that_is_not_closed_is_named(actor):
    worker_row()
    guarded(actor)
    assert kinds(actor) == []
    (seen,) = [one for one in list_breaker_views(actor) if one.over == "provider"]
    change(seen, STOPPED)
    (group,) = attention(actor, NOW).groups
    (item,) = group.items
    assert (group.kind, item.title, item.state, item.reason) == (
        AttentionKind.BREAKER,
        "provider scripted",
        "stopped",
        "5 times timeout",
    )


def test_what_is_not_named_is_counted(actor, small, monkeypatch):
    worker_row()
    for n in range(7):
        run_row(actor, small, "aborted", asked=9, ended=n, cause=f"cause-{n}")
    (group,) = attention(actor, NOW).groups
    assert (group.count, group.more, group.capped) == (7, 3, False)
    assert [item.at for item in group.items] == sorted((item.at for item in group.items), reverse=True)
    monkeypatch.setattr(failures, "COUNTED", 5)
    (group,) = attention(actor, NOW).groups
    assert (group.count, group.capped) == (5, True)


def test_the_nearest_to_its_limit_is_named_first(actor, small):
    worker_row()
    for share in (85, 99, 90, 81, 97):
        run_row(actor, small, "running", cost_usd_micros=share * 10_000)
    (group,) = attention(actor, NOW).groups
    assert [item.observed // 10_000 for item in group.items] == [99, 97, 90, 85]
    assert (group.count, group.more) == (5, 1)


def test_no_member_sees_the_trouble_of_others(actor, stranger, trouble):
    assert kinds(stranger) == []
    assert review_queue(stranger, NOW).open == 0


def test_it_is_answered_from_indexes(actor, trouble):
    plans = plans_of(lambda: attention(actor, NOW)) + plans_of(lambda: review_queue(actor, NOW))
    assert any("run_bad_ended" in line for line in plans)
    assert any("run_live" in line for line in plans)
    assert any("review_open_due" in line for line in plans)
    assert any("review_decided" in line for line in plans)
    assert [line for line in plans if "SCAN fabric_run" in line or "SCAN fabric_review" in line] == []


def test_the_queue_by_when_it_is_due(actor, small, monkeypatch):
    for n, due in enumerate((-10, -1, 5, 59, 61, 900, 901)):
        review_row(actor, run_row(actor, small, "waiting"), due, f"q{n}")
    queue = review_queue(actor, NOW)
    assert (queue.overdue, queue.within_hour, queue.later, queue.capped, queue.open) == (2, 2, 3, False, 7)
    assert [item.review for item in queue.following] == ["q0", "q1", "q2", "q3", "q4"]
    assert [item.kind for item in queue.following[:3]] == [
        AttentionKind.OVERDUE,
        AttentionKind.OVERDUE,
        AttentionKind.DUE_SOON,
    ]
    monkeypatch.setattr(module, "COUNTED", 4)
    queue = review_queue(actor, NOW)
    assert (queue.overdue, queue.within_hour, queue.later, queue.capped) == (2, 2, 0, True)


def decided(actor, fabric, number: int, minutes: float, *, asked: float = 120, **more: object) -> None:
    """A review that was decided so many minutes after it was asked; its run's id says when it was asked for, as ids do."""
    at = NOW - int(asked * MINUTE)
    digits = f"{at // 1_000:012x}"
    run = run_row(actor, fabric, "completed", asked=asked, id=f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012}")
    opened = at + MINUTE
    answered = {"opened_at": opened, "decided_at": opened + int(minutes * MINUTE), "verb": "approve"} | more
    review_row(actor, run, 60, f"decided{number}", **answered)


def test_the_median_is_of_what_people_decided_lately(actor, stranger, small):
    assert (review_queue(actor, NOW).decided, review_queue(actor, NOW).median_us) == (0, None)
    for number, minutes in enumerate((1, 2, 30)):
        decided(actor, small, number, minutes)
    decided(actor, small, 3, 500, by_system=True)
    decided(actor, small, 4, 500, decided_at=None)
    decided(actor, small, 5, 500, asked=(module.DECIDED_DAYS * 24 + 10) * 60)
    found = review_queue(actor, NOW)
    assert (found.decided, found.median_us) == (3, 2 * MINUTE)
    decided(actor, small, 6, 4)
    assert review_queue(actor, NOW).median_us == 3 * MINUTE
    assert review_queue(stranger, NOW).median_us is None


def test_only_so_many_decisions_are_read(actor, small, monkeypatch):
    monkeypatch.setattr(module, "DECIDED_MAX", 2)
    for number, asked in enumerate((900, 800, 700)):
        decided(actor, small, number, number + 1, asked=asked)
    found = review_queue(actor, NOW)
    assert (found.decided, found.median_us) == (2, int(2.5 * MINUTE))


def test_a_run_with_a_raised_cap_is_compared_with_that_cap(actor, small):
    worker_row()
    run = run_row(actor, small, "running", cost_usd_micros=900_000)
    assert kinds(actor) == [AttentionKind.NEAR_CEILING]
    raised = CapRaised(cap_usd_micros=2_000_000, before_usd_micros=1_000_000, actor="ann", review_id="r")
    write(run.id, Teller().tell(raised).events)
    facts = {"state": "running", "created_at": run.created_at, "deadline_at": run.deadline_at}
    Run.objects.filter(id=run.id).update(cost_usd_micros=900_000, **facts)
    assert kinds(actor) == []
    Run.objects.filter(id=run.id).update(cost_usd_micros=1_700_000)
    (group,) = attention(actor, NOW).groups
    assert (group.items[0].observed, group.items[0].limit) == (1_700_000, 2_000_000)
