"""When a provider fails, over real HTTP: storms of 429, outages, endpoints that hang or answer with a web page. Rows as in ``test_misbehaviour_http.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest

from simulator.endpoint import Step, answer, hang, html, refusal, trickle
from tests.fabric.composition.test_misbehaviour_http import SUMMARY, Row, Seen, after, answered, looks, seen_of

pytestmark = pytest.mark.django_db(transaction=True)

IN_FLIGHT = 3
"""Of four runs at once: what the others have out when the third answer comes."""
PROBES = 3
"""As many as fit into a stage of 15 s, each twice as long after the one before: 1 s, 2 s, 4 s."""
BREAKER = "  breakers: [{scope: provider, signals: [{names: [rate_limit], mode: consecutive, threshold: 2}], cooldown_s: 3}]\n"
SOON = "  breakers: [{preset: outage, cooldown_s: 0.3}]\n"
STORM_S = 2.5


def storm(n: int) -> Step:
    return refusal(429, "429 slow down", headers={"Retry-After": "1"})


def outage(n: int) -> Step:
    return refusal(503, "overloaded")


def waited(seen: Seen) -> None:
    """A storm that does not end: asked as its Retry-After says and then less and less often, until the stage has no time left."""
    assert seen.row.state == "failed"
    assert 3 < len(seen.requests) <= 3 + PROBES
    gaps = [later - sooner for sooner, later in pairwise(seen.at[request.number] for request in seen.requests)]
    assert all(gap >= 1.0 for gap in gaps), "none before Retry-After"
    assert gaps[-1] > 1.9, "longer each time"
    assert "429" in seen.row.reason


def asked(most: int) -> Callable[[Seen], None]:
    """Runs of a fabric that names no breaker meet a storm that does not end: their provider is asked so often by all of them."""

    def holds(seen: Seen) -> None:
        assert {row.state for row in seen.rows} == {"failed"}
        assert 3 <= len(seen.requests) <= most
        assert all("429" in row.reason or "rate limit" in row.reason for row in seen.rows), [
            row.reason for row in seen.rows
        ]

    return holds


def parked(most: int) -> Callable[[Seen], None]:
    """Two runs met the storm together, behind a breaker of their provider: few requests, and both went on by themselves once it was over."""

    def holds(seen: Seen) -> None:
        assert {row.state for row in seen.rows} == {"completed"}, seen.row.reason
        refused = [number for number, at in seen.at.items() if at - min(seen.at.values()) < STORM_S]
        assert len(refused) <= most
        assert len({request.idempotency_key for request in seen.requests}) == 2

    return holds


def blip(seen: Seen) -> None:
    """Three waits of a second that the endpoint named cost no run, and no more than they have to."""
    answered(4, 0)(seen)
    assert seen.at[4] - seen.at[1] <= 5.0


def away(seen: Seen) -> None:
    """The breaker that a fabric has opens with the third failure, and says what it counted; the run goes on when it closes."""
    answered(4, 0)(seen)
    [waits] = [fact for fact in seen.kinds("retry_scheduled") if fact["source"] == "breaker"]
    assert waits["delay_s"] >= 0.29
    assert [fact["reaction"] for fact in seen.kinds("reaction_decided")] == ["retry", "retry", "wait_for_breaker"]


def refused_as(words: str, signal: str) -> Callable[[Seen], None]:
    """A call that the open breaker refused names the signal that was counted, in the words and in the cause."""

    def holds(seen: Seen) -> None:
        [refused] = [fact for fact in seen.kinds("attempt_failed") if fact["trip"]]
        assert words in refused["message"], refused["message"]
        assert (refused["cause"], refused["trip"]["evidence"]["details"]["signal"]) == (signal, signal)
        assert seen.row.state == "completed", seen.row.reason

    return holds


def silent(*words: str) -> Callable[[Seen], None]:
    def holds(seen: Seen) -> None:
        assert (seen.row.state, len(seen.requests)) == ("failed", 2)
        assert {fact["cause"] for fact in seen.kinds("attempt_failed")} == {"timeout"}
        assert all(word in seen.row.reason for word in words), seen.row.reason
        first, second = (fact["deadline_at"] for fact in seen.kinds("call_issued"))
        assert (second - first) / 1e6 <= 1.0, "both attempts within the call's time"

    return holds


def web_page(seen: Seen) -> None:
    """Asked twice, and no more: a web page that comes again is the address."""
    assert (seen.row.state, len(seen.requests)) == ("failed", 2)
    assert "web page" in seen.row.reason


ROWS: Mapping[str, tuple[Row, ...]] = {
    "a storm of 429": (
        Row(storm, waited),
        Row(storm, asked(3 + 4 * PROBES), runs=4),
        Row(lambda n: answer(SUMMARY), parked(3), tier="batch", fabric={"policy": BREAKER}, runs=2, storm_s=STORM_S),
        Row(lambda n: answer(SUMMARY), parked(6), runs=2, storm_s=STORM_S),
    ),
    "three 429s, then healthy": (Row(after(3, storm), blip), Row(after(3, storm), answered(4, 0), tier="batch")),
    "four 429s, then healthy": (
        Row(after(4, lambda n: refusal(429, "slow down")), answered(5, 0), tier="batch", fabric={"policy": SOON}),
    ),
    "an outage of 503": (
        Row(after(3, outage), away, fabric={"policy": SOON}),
        Row(after(3, outage), refused_as("3 times server error", "server_error"), tier="batch", fabric={"policy": SOON}),
    ),
    "503 after three good calls": (
        Row(lambda n: looks(n, "abc"[n - 1]) if n <= 3 else outage(n) if n == 4 else answer(SUMMARY), answered(5, 3)),
    ),
    "hang, trickle": (
        Row(lambda n: hang(), silent("did not finish", "(attempt 2)")),
        Row(lambda n: trickle(), silent("(attempt 2)", "bytes")),
    ),
    "a web page for an answer": (
        Row(lambda n: html(), web_page),
        *(Row(after(1, lambda n: html()), answered(2, 0), tier=tier, fabric={"allowed": f"interactive, {tier}"}) for tier in ("batch", "high_stakes")),
    ),
}  # fmt: skip
CASES = [(name, row) for name, rows in ROWS.items() for row in rows]


@pytest.mark.parametrize("row", [row for _, row in CASES], ids=[name for name, _ in CASES])
def test_a_provider_that_fails_is_waited_for_or_told_of(settings, caplog, row):
    seen = seen_of(row, settings, caplog)
    row.holds(seen)
    assert "sk-test" not in json.dumps([event.fact for event in seen.events])
