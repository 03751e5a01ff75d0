"""Finding runs, fabrics and reviews."""

from __future__ import annotations

import pytest
from django.db import connection

from fabric.selectors.errors import Refused
from fabric.selectors.overview import search as searching
from fabric.selectors.overview.search import search
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.runs.start import run_start
from tests.fabric.services.world import ran


@pytest.fixture
def started(store, nudge, actor, small):
    """Starts a run with that request."""
    return lambda text: run_start(store=store, nudge=nudge, actor=actor, fabric=small, text=text).run_id


def found(actor, query):
    return [hit.id for hit in search(actor, query).runs]


def test_a_run_is_found_by_its_id_or_its_beginning_or_its_end(actor, started):
    first, second = started("one"), started("two")
    for said in (
        first,
        first.upper(),
        first.replace("-", ""),
        f"run-{first}",
        f"  {first} ",
        first[-12:],
        first[-16:].replace("-", ""),
    ):
        assert found(actor, said) == [first], said
    # Ids that were made together begin alike.
    assert set(found(actor, first[:8])) == {first, second}
    assert found(actor, first[:12].replace("-", ""))[0] in {first, second}


def test_a_run_is_found_by_words_of_its_title_the_newest_first(actor, started):
    old, new = started("Reconcile the ledger of October"), started("Which LEDGER is due?")
    started("Something else")
    assert found(actor, "ledger") == [new, old]
    assert found(actor, "october LEDGER") == [old]
    assert found(actor, "ledger november") == []


def test_letters_beyond_ascii_are_found_in_either_case(actor, started):
    run = started("Übersicht der Änderungen")
    assert found(actor, "übersicht") == [run]


def test_what_means_something_to_a_database_means_nothing_here(actor, started):
    run = started("100 % of _all_ 'quotes' \\ here")
    for word in ("%", "_all_", "'quotes'", "\\"):
        assert found(actor, word) == [run]
    assert found(actor, "%%") == []


def test_a_fabric_is_found_by_name_or_title(actor, small, doubtful):
    assert [hit.name for hit in search(actor, "doubt").fabrics] == ["doubtful"]
    assert [hit.name for hit in search(actor, "A SMALL").fabrics] == ["doubtful", "small"]
    assert search(actor, "doubtful").fabrics[0].number == 1


def test_a_review_is_found_by_its_id(actor, doubtful):
    run = ran(actor, doubtful)
    (review,) = run_reviews(actor, run.id)
    (hit,) = search(actor, review[:7]).reviews
    assert (hit.id, hit.run_id, hit.open) == (review, run.id, True)


def run_reviews(actor, run_id):
    return [item.id for item in list_open_reviews(actor, run_id)]


def test_nothing_of_another_workspace_is_found(actor, stranger, doubtful):
    run = ran(actor, doubtful)
    (review,) = run_reviews(actor, run.id)
    for said in (run.id, run.id[:8], run.id[-12:], "notes", "doubtful", review):
        assert search(actor, said).count
        assert search(stranger, said).count == 0, said


def test_more_than_twenty_are_said_to_be_more(actor, started, small):
    for n in range(21):
        started(f"request {n}")
    many = search(actor, "request")
    assert len(many.runs) == 20
    assert many.more == {"runs"}
    assert not search(actor, "request 20").more


def test_titles_are_looked_at_in_the_newest_runs_only_and_that_is_said(actor, started, monkeypatch):
    old, new = started("ledger one"), started("ledger two")
    monkeypatch.setattr(searching, "SEARCHED_RUNS", 1)
    bounded = search(actor, "ledger")
    assert [hit.id for hit in bounded.runs] == [new]
    assert bounded.bounded
    assert found(actor, old) == [old]
    monkeypatch.setattr(searching, "SEARCHED_RUNS", 100)
    assert not search(actor, "ledger").bounded


@pytest.mark.parametrize(("said", "problem"), [("a\0b", "NUL"), ("x" * 201, "201 characters"), ("a " * 9, "9 words")])
def test_what_cannot_be_searched_for_is_a_sentence(actor, said, problem):
    with pytest.raises(Refused, match=problem) as caught:
        search(actor, said)
    assert caught.value.code == "invalid"


def test_nothing_asked_is_nothing_found_and_costs_nothing(actor, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert search(actor, "   ").count == 0


def test_a_search_is_five_queries_at_most(actor, started, django_assert_max_num_queries):
    run = started("one")
    with django_assert_max_num_queries(6):
        search(actor, run)


def test_every_look_goes_along_an_index(actor, started):
    run = started("one")
    seen: list[tuple[str, tuple[object, ...]]] = []

    def keep(execute, sql, params, many, context):
        seen.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(keep):
        search(actor, run[:8])
    assert len(seen) >= 5
    for sql, params in seen:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            plan = " | ".join(row[3] for row in cursor.fetchall())
        assert "SCAN" not in plan, (sql, plan)
        # What bounds it: the id, or the instant since which titles are looked at; else the whole workspace would be read.
        if '"fabric_run"."title"' in sql and '"fabric_review"' not in sql:
            assert "id>? AND id<?" in plan or "created_at>?" in plan, plan
