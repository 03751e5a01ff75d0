"""Peers that hand a request to and fro, over real HTTP: the row "handoff ping-pong" of the comparison (``test_misbehaviour_http``)."""

from __future__ import annotations

import json

import pytest

from simulator.endpoint import Received, Step, answer, call
from simulator.endpoint.player import PLAYS, Playing
from tests.fabric.composition.test_misbehaviour_http import Row, Seen, seen_of

pytestmark = pytest.mark.django_db(transaction=True)

PEERS = ("red", "blue", "green")
BRIEF = "Please look at this once more, and say what the customer should be told about the invoice."


def fabric(peers: tuple[str, ...]) -> dict[str, str]:
    """A chain of peers, each of which may pass the request on."""
    return {
        "topology": f"{{kind: handoff, workers: [{', '.join(peers)}]}}",
        "agents": "".join(
            f"  - {{name: {one}, model: script, instructions: Pass., tools: [transfer]}}\n" for one in peers
        ),
    }


def passes_on(received: Received, peers: tuple[str, ...], brief: str) -> Step:
    """The agent that is asked hands over to the next, and gives up where its handover was refused."""
    who = received.body["messages"][0]["content"].removeprefix("You are ").partition(".")[0]
    if not received.body.get("tools") or received.body["messages"][-1]["role"] == "tool":
        return answer(json.dumps({"text": "I do not know.", "citations": []}))
    to = peers[(peers.index(who) + 1) % len(peers)]
    told = brief.format(n=received.number)
    return answer("", [call("transfer", {"to": to, "brief": told}, f"call-{received.number}")])


def handed(seen: Seen) -> list[tuple[str, str]]:
    return [(fact["from_agent"], fact["to_agent"]) for fact in seen.kinds("handed_off")]


def test_two_that_say_nothing_new_are_stopped_when_their_circle_closes_again(settings, caplog):
    peers = PEERS[:2]
    row = Row(
        lambda n: answer(""),
        lambda seen: None,
        fabric=fabric(peers),
        by_request=lambda received: passes_on(received, peers, BRIEF),
    )
    seen = seen_of(row, settings, caplog)
    assert len(handed(seen)) <= 6
    assert len(seen.requests) <= 10
    causes = [fact["cause"] for fact in seen.kinds("reaction_decided")]
    assert causes, seen.row.reason
    assert causes[0]["mechanism"] == "deadlock_monitor"
    assert set(causes[0]["evidence"]["details"]["cycle"]) == set(peers), "the cycle is named"


@pytest.mark.parametrize("many", [2, 3])
def test_who_always_says_something_new_is_stopped_at_the_sixth_hop(settings, caplog, many):
    peers = PEERS[:many]
    news = "Matter {n}: " + "look at what was written under number {n} of the ledger, and pass on what is new there."
    words = (
        "apples",
        "bridges",
        "candles",
        "dragons",
        "engines",
        "forests",
        "gardens",
        "harbours",
        "islands",
        "jackets",
    )

    def turn(received: Received) -> Step:
        other = " ".join(f"{word}{received.number}" for word in words)
        return passes_on(received, peers, f"{news} {other}")

    row = Row(lambda n: answer(""), lambda seen: None, fabric=fabric(peers), by_request=turn)
    seen = seen_of(row, settings, caplog)
    assert len(handed(seen)) == 5
    assert "hop_limit" in seen.said
    assert "as often as they may in one run (limit 5)" in seen.said


@pytest.mark.parametrize("tier", ["interactive", "batch"])
@pytest.mark.parametrize(
    ("scenario", "way"),
    [
        ("handoff_cycle", [("red", "blue"), ("blue", "red")]),
        ("handoff_cycle_of_3", [("red", "blue"), ("blue", "green"), ("green", "red")]),
    ],
)
def test_the_misbehaving_endpoint_s_ping_pong_is_stopped_when_the_first_would_hand_on_again(
    settings, caplog, scenario, way, tier
):
    endpoint = Playing(PLAYS[scenario])
    row = Row(lambda n: answer(""), lambda seen: None, fabric=fabric(PEERS), by_request=endpoint.reply, tier=tier)
    seen = seen_of(row, settings, caplog)
    assert handed(seen) == way
    [first, *_] = [fact["cause"] for fact in seen.kinds("reaction_decided")]
    assert (first["mechanism"], first["cause"]) == ("deadlock_monitor", "brief_repeated")
    assert first["evidence"]["details"]["cycle"] == ["red", "blue"]
