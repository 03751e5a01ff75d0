"""The history of decisions: who decided what, when, and how long it took; and its figures."""

from __future__ import annotations

import pytest
from django.db import connection

from fabric.core.audit.lines import Act
from fabric.core.values.fingerprint import encode
from fabric.core.values.units import US
from fabric.models import AuditLine, Review
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.decisions import figures as decision_figures
from fabric.selectors.reviews.decisions.figures import decision_figures as figures
from fabric.selectors.reviews.decisions.figures import overdue_count
from fabric.selectors.reviews.decisions.history import DecisionsSince, HistoryFilter, decided_page, decided_since
from tests.fabric.selectors.overview.test_tiles import plans_of
from tests.fabric.services.reviews.decided import AT, decided, many
from tests.fabric.services.world import ran

ANY = HistoryFilter()
NOW = AT + 3_600 * US


@pytest.fixture
def run_id(actor, small):
    return ran(actor, small).id


def test_the_newest_first_a_page_at_a_time_each_once(actor, run_id):
    # Two at one instant, on both sides of a page's end.
    many(*(decided(run_id, decided_at=AT + n // 2 * US) for n in range(7)))
    seen, after = [], ""
    while True:
        page = decided_page(actor, ANY, limit=2, after=after)
        seen += [(row.decided_at, row.id) for row in page.rows]
        if not (after := page.next):
            break
    assert seen == sorted(seen, key=lambda one: (-one[0], one[1]))
    assert len(seen) == len(set(seen)) == 7


@pytest.mark.parametrize("cursor", ["x", "12", "1.", ".a", "-1.a", "1" * 19 + ".a", "١.a"])
def test_what_is_no_cursor_is_said(actor, cursor):
    with pytest.raises(Refused, match="is no cursor of this list"):
        decided_page(actor, ANY, after=cursor)


def test_it_says_who_decided_what_and_how_long_it_took(actor, run_id):
    made = decided(run_id, "reject", took_s=90, agreed=names_text(["ben"]), score=0.6, tau=0.7)
    many(made)
    # The first of two claims was released; another person's, and what came later, are not this decision's.
    for name, at in (("ana", AT - 80 * US), ("ana", AT - 30 * US), ("ben", AT - 20 * US), ("ana", AT + US)):
        said = {"kind": Act.REVIEW_CLAIMED.value, "subject": run_id, "body": encode({"item": made.id})}
        AuditLine.objects.create(workspace_id=actor.workspace_id, actor=name, at=at, **said)
    (row,) = decided_page(actor, ANY).rows
    assert (row.verb, row.decided_by, row.by_system, row.agreed) == ("reject", "ana", False, ("ben",))
    assert (row.took_us, row.worked_us, row.late, row.expired) == (90 * US, 30 * US, False, False)
    assert (row.fabric, row.run_id, row.score, row.tau) == ("small", run_id, 0.6, 0.7)


def test_an_unanswered_review_is_the_systems_and_what_came_late_is_late(actor, run_id):
    many(decided(run_id, "reject", "system", by_system=True), decided(run_id, due_at=AT - US))
    late, expired = sorted(decided_page(actor, ANY).rows, key=lambda row: row.by_system)
    assert (expired.expired, expired.late, expired.claimed_at) == (True, False, None)
    assert (late.expired, late.late) == (False, True)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "abcd"),
        ({"since": AT + US}, "bcd"),
        ({"until": AT + US}, "a"),
        ({"fabric": "small"}, "abcd"),
        ({"fabric": "other"}, ""),
        ({"tier": "its own"}, "abcd"),
        ({"tier": "none"}, ""),
        ({"item": "failure"}, "b"),
        ({"verb": "reject"}, "cd"),
        ({"verb": "withdrawn"}, "e"),
        ({"failure": "timeout"}, "b"),
        ({"by": "ben"}, "b"),
        ({"by": "system"}, ""),
        ({"who": "people"}, "abc"),
        ({"who": "system"}, "d"),
    ],
)
def test_filters(actor, run_id, wanted, found):
    rows = {
        "a": decided(run_id),
        "b": decided(run_id, "edit", "ben", item="failure", failure_type="timeout", decided_at=AT + US),
        "c": decided(run_id, "reject", decided_at=AT + 2 * US),
        "d": decided(run_id, "reject", "system", by_system=True, decided_at=AT + 3 * US),
        "e": decided(run_id, "withdrawn", "the run ended", by_system=True),
        "t": decided(run_id, "", "", item="follow_up", by_system=True),
    }
    many(*rows.values())
    tier = decided_page(actor, ANY).rows[0].tier
    asked = HistoryFilter(**{name: tier if given == "its own" else given for name, given in wanted.items()})
    names = {row.id: name for name, row in rows.items()}
    assert "".join(sorted(names[row.id] for row in decided_page(actor, asked).rows)) == found


def test_no_member_sees_anothers_workspace(actor, stranger, run_id):
    many(decided(run_id))
    assert decided_page(stranger, ANY).rows == ()
    assert figures(stranger, ANY, now=NOW).whole.count == 0


def test_figures_by_fabric_and_kind_with_times_by_nearest_rank(actor, run_id):
    many(
        *(decided(run_id, took_s=10 * n) for n in range(1, 11)),
        decided(run_id, "reject", "system", by_system=True, took_s=9_000),
        decided(run_id, "edit", item="failure", took_s=7, due_at=AT - US),
    )
    found = figures(actor, ANY, now=NOW)
    assert (found.whole.count, found.whole.people, found.whole.expired, found.whole.in_time) == (12, 11, 1, 10)
    first, second = found.places
    assert (first.name, first.more, first.count, first.expired, first.in_time) == ("small", "post_stage", 11, 1, 10)
    assert (first.median_us, first.p90_us) == (50 * US, 90 * US)
    assert (second.more, second.median_us, second.p90_us, second.in_time) == ("failure", 7 * US, 7 * US, 0)
    assert not found.cut


def test_where_only_the_system_decided_no_time_of_people_is_said(actor, run_id):
    many(decided(run_id, "reject", "system", by_system=True))
    found = figures(actor, ANY, now=NOW)
    assert (found.whole.people, found.whole.median_us, found.whole.p90_us, found.people) == (0, None, None, ())


def test_what_people_did_against_what_was_proposed_by_reason(actor, run_id):
    many(
        *(decided(run_id, verb) for verb in ("approve", "edit", "reject", "respond", "decline")),
        decided(run_id, "reject", failure_type="timeout", content=b'{"mechanism": "deadline"}'),
        decided(run_id, "approve", failure_type="", content=b""),
        decided(run_id, "withdrawn", "the run ended", by_system=True),
    )
    found = figures(actor, ANY, now=NOW)
    assert [(one.name, one.more, one.objections, one.people) for one in found.reasons] == [
        ("grounding", "escalation", 3, 5),
        ("", "", 0, 1),
        ("timeout", "deadline", 1, 1),
    ]


@pytest.mark.parametrize(
    ("score", "tau", "band"),
    [(0.6, 0.7, "0"), (0.599, 0.7, "1"), (0.699, 0.7, "0"), (0.5, 0.7, "1"), (0.0, 0.9, "8"), (0.7, 0.7, "-1")],
)
def test_bands_of_a_tenth_below_tau(actor, run_id, score, tau, band):
    many(decided(run_id, score=score, tau=tau), decided(run_id))
    (found,) = figures(actor, ANY, now=NOW).bands
    assert (found.name, found.count, found.tau_least, found.tau_most) == (band, 1, tau, tau)


def test_who_decided_how_much_and_how_much_of_it_today(actor, run_id):
    midnight = NOW // (86_400 * US) * 86_400 * US
    many(
        decided(run_id, "approve", "ana", decided_at=midnight),
        decided(run_id, "reject", "ana", decided_at=midnight - 1),
        decided(run_id, "edit", "ben", decided_at=midnight - 1),
    )
    people = figures(actor, ANY, now=NOW).people
    assert [(one.name, one.people, one.today, one.objections) for one in people] == [("ana", 2, 1, 1), ("ben", 1, 0, 1)]


def test_figures_of_the_newest_say_that_they_are(actor, run_id, monkeypatch):
    monkeypatch.setattr(decision_figures, "FIGURES_MAX", 2)
    many(*(decided(run_id, "approve" if n else "reject", decided_at=AT + n * US) for n in range(3)))
    found = figures(actor, ANY, now=NOW)
    assert (found.cut, found.whole.count, found.whole.rejected) == (True, 2, 0)


def test_what_is_open_past_its_time_is_counted(actor, run_id):
    many(
        decided(run_id, decided_at=AT),
        *(decided(run_id, due_at=NOW + n, item="failure") for n in (-1, 1)),
    )
    assert overdue_count(actor, ANY, now=NOW) == 0
    Review.objects.filter(item="failure").update(decided_at=None, verb="", decided_by="")
    assert overdue_count(actor, ANY, now=NOW) == 1
    assert overdue_count(actor, HistoryFilter(item="post_stage"), now=NOW) == 0


LIMITED = {"sqlite": 0, "postgresql": 3}
"""Statements that a limit on the time of a read adds: the transaction that it is local to."""


def test_a_page_and_its_figures_take_few_statements(actor, run_id, django_assert_num_queries):
    many(*(decided(run_id) for _ in range(60)))
    with django_assert_num_queries(2 + LIMITED[connection.vendor]):
        decided_page(actor, ANY)
    with django_assert_num_queries(1 + LIMITED[connection.vendor]):
        figures(actor, ANY, now=NOW)


def test_how_much_people_decided_since_then(actor, stranger, run_id, django_assert_num_queries):
    many(
        *(decided(run_id, by=actor.name, decided_at=AT + n * US) for n in (-1, 0, 1)),
        decided(run_id, "reject", "ana", decided_at=AT + US),
        decided(run_id, "reject", "system", by_system=True, decided_at=AT + US),
        decided(run_id, "withdrawn", "the run ended", decided_at=AT + US),
        decided(run_id, "", actor.name, item="follow_up", decided_at=AT + US),
    )
    with django_assert_num_queries(1):
        assert decided_since(actor, AT) == DecisionsSince(2, 3)
    assert decided_since(stranger, AT) == DecisionsSince(0, 0)
    assert any("review_decided" in line for line in plans_of(lambda: decided_since(actor, AT)))
