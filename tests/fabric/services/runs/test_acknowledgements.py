"""Acknowledging failures: what a person has seen, of one fabric and cause, with their name in the audit stream."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fabric.models import AuditLine, FailureAcknowledgement
from fabric.selectors.overview.failures import find_failures, recent_failures
from fabric.services.errors import Refused
from fabric.services.runs.acknowledgements import failures_acknowledge
from tests.fabric.selectors.rows import MINUTE, run_row


def now():
    return time.time_ns() // 1_000


@pytest.fixture
def failed(actor, small):
    """Two failures of one cause, and one of another."""
    at = now()
    for minutes, cause in ((3, "server_error"), (2, "server_error"), (1, "")):
        run_row(actor, small, "failed", cause=cause, ended_at=at - minutes * MINUTE)
    return find_failures(actor, small, "server_error", at)


def test_it_is_recorded_with_the_persons_name(actor, small, failed):
    assert (
        failures_acknowledge(actor=actor, fabric=small, cause="server_error", until=failed.newest_at, note=" Ok ") == 2
    )
    row = FailureAcknowledgement.objects.get()
    assert (row.by, row.note, row.until_at) == ("owner", "Ok", failed.newest_at)
    (line,) = AuditLine.objects.filter(kind="failures_acknowledged")
    assert (line.actor, line.subject) == ("owner", small)
    assert b"Ok" not in bytes(line.body)
    found = recent_failures(actor, now(), named=9)
    assert [(one.cause, one.count) for one in found.groups] == [("", 1)]
    assert [(one.cause, one.count, one.by) for one in found.acknowledged] == [("server_error", 2, "owner")]


def test_only_what_was_seen_is_acknowledged(actor, small, failed):
    failures_acknowledge(actor=actor, fabric=small, cause="server_error", until=failed.first_at)
    assert find_failures(actor, small, "server_error", now()).count == 1


def test_what_is_refused(actor, small, failed, stranger):
    right = {"fabric": small, "cause": "server_error", "until": failed.newest_at}
    cases = (
        (replace(actor, roles=frozenset({"viewer"})), {}, "forbidden"),
        (replace(actor, kind="service"), {}, "forbidden"),
        (stranger, {}, "not_found"),
        (actor, {"cause": "quota"}, "not_found"),
        (actor, {"fabric": "none"}, "not_found"),
        (actor, {"until": 0}, "not_found"),
        (actor, {"note": "a" * 1_001}, "too_large"),
    )
    for who, change, code in cases:
        with pytest.raises(Refused) as caught:
            failures_acknowledge(actor=who, **(right | change))
        assert caught.value.code == code, (who.name, change)
    assert not FailureAcknowledgement.objects.exists()


def test_the_groups_cost_three_statements(actor, small, failed, django_assert_num_queries):
    with django_assert_num_queries(3):
        recent_failures(actor, now(), named=4)
