"""``python -m tests.chaos.processes.effects``: everything that chaos runs do to the outside, in a process of its own with one ledger.

An OpenAI-compatible endpoint that plays the scripted agents, and the booking service. Each request that is acted on is one line on disk before it
is answered; no worker can write there, and nothing kills this process. It says where on standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fabric.core.values.command_ids import unit
from fabric.core.values.cost import Price
from simulator.booking import BookingDesk, Faults, Ledger
from simulator.booking.desk import read_call
from simulator.endpoint import ScriptedEndpoint, Step, answer, call
from simulator.endpoint.behaviour.misbehaviour import agents
from simulator.endpoint.wire.server import Received
from tests.chaos.judging.judge import WITHHELD

PRICE = Price(1_000_000, 2_000_000)
"""What an answer costs: the price that the chaos fabric names."""
FAULTS = Faults(lost=0.03, slow=0.02, refused=0.03)
DELAY_MIN_S, DELAY_MAX_S = 0.1, 1.0
"""As long as answers take: so long that most runs wait for one when their worker dies."""
BOOK = "book_room"
NOTICE, NOTICES = "send_notice", "/notices"
"""What the scripted booker does instead where the request says so, by a tool that nothing undoes; and where that is served."""
ASK = "Send a notice."
BOOKED = ("room", "table")
"""What the scripted booker books by that tool, one after the other."""
NOTE, DESKS = "memory_write_desk", 4
"""Where the scripted booker notes what it is about to book, before it does; and under how many keys all of the runs do."""
LAST, FAILURE = "lead", "Let it go wrong."
"""The last agent of a run, whose answer is withheld where the request says so."""

_scripted = agents()


class Outside:
    """The endpoint's script: models and bookings over one ledger."""

    def __init__(
        self, ledger: Ledger, faults: Faults, delay_s: tuple[float, float] = (DELAY_MIN_S, DELAY_MAX_S)
    ) -> None:
        self._ledger, (self._least_s, self._most_s) = ledger, delay_s
        self._desk = BookingDesk(ledger, faults)

    def reply(self, received: Received) -> Step:
        """Answers, and writes down what was done."""
        if self._desk.serves(received.path):
            return self._desk.reply(received)
        if received.path == NOTICES:
            self._ledger.note("notice", received.headers, applied=True)
            return Step(body=b'{"status": "sent"}')
        withheld = _withheld(received)
        step = withheld or _booking(received) or _scripted(received)
        if received.method == "POST" and step.status == 200:
            about = {"usd_micros": price(step.body)} | ({WITHHELD: True} if withheld else {})
            self._ledger.note("model", received.headers, applied=True, **about)
        drawn = unit(0, "delay", received.headers.get("x-fabric-call", ""))
        return replace(step, delay_s=self._least_s + drawn * (self._most_s - self._least_s))


def price(completion: bytes) -> int:
    """Micro-dollars that a completion costs."""
    usage: Mapping[str, int] = json.loads(completion)["usage"]
    return PRICE.cost(usage["prompt_tokens"], usage["completion_tokens"])


def _booking(received: Received) -> Step | None:
    """The booker's first turns: it notes what it is for and books one thing after the other, where tools for that are offered."""
    offered = {tool.get("function", {}).get("name") for tool in _body(received).get("tools") or ()}
    done = sum(message.get("role") == "tool" for message in _messages(received))
    if BOOK not in offered:
        return None
    if _says(received, ASK):
        return None if done else answer("", [call(NOTICE, {}, "notice")], usage=(_heard(received), 20))
    calls = [call(BOOK, {"kind": what}, f"book-{n}") for n, what in enumerate(BOOKED)]
    if NOTE in offered:
        run = read_call(received.headers)[0]
        calls.insert(0, call(NOTE, {"key": f"desk/{sum(run.encode()) % DESKS}", "value": {"run": run}}, "note"))
    return answer("", [calls[done]], usage=(_heard(received), 20)) if done < len(calls) else None


def _withheld(received: Received) -> Step | None:
    """The last agent's answer in a run that is to fail: withheld, after which the run is aborted and undoes what it did."""
    if received.agent != LAST or not _says(received, FAILURE):
        return None
    return answer("", finish="content_filter", usage=(_heard(received), 1))


def _says(received: Received, words: str) -> bool:
    return any(words in str(message.get("content") or "") for message in _messages(received))


def _body(received: Received) -> Mapping[str, Any]:
    return received.body if isinstance(received.body, dict) else {}


def _messages(received: Received) -> Sequence[Mapping[str, Any]]:
    return _body(received).get("messages") or ()


def _heard(received: Received) -> int:
    return sum(len(str(message.get("content") or "")) for message in _messages(received)) // 4 + 1


def main(arguments: list[str]) -> int:
    """Serves until standard input closes, which it does when the process that started this is gone."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.processes.effects", description=__doc__)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--calm", action="store_true", help="no faults of its own")
    parser.add_argument("--delay", type=float, nargs=2, default=(DELAY_MIN_S, DELAY_MAX_S), help="seconds, from and to")
    chosen = parser.parse_args(arguments)
    outside = Outside(Ledger(chosen.ledger), Faults() if chosen.calm else FAULTS, tuple(chosen.delay))
    with ScriptedEndpoint(outside.reply, keep=False) as endpoint:
        print(json.dumps({"authority": endpoint.authority}), flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
