"""A benchmark measures one agent turn in process (performance.md P12): the guard for one tool call, and the whole turn with its facts folded.

A run with a fixed plan of one brief; its worker proposes a call of another query in each turn, and each finds something else, so that nothing
trips and every mechanism looks at a window that is full. Nothing is rendered, sent or committed: only ``decide`` runs.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.engine import Decision, decide
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.events.inputs import Input, ModelReplied, RunRequested, ToolCall, ToolFinished
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import Contents, Context, compile_spec
from fabric.core.state.run import Run
from fabric.core.values.cost import Price
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.policies.gates import gate_evaluators
from simulator.installation.database import ROOT

if TYPE_CHECKING:
    from tests.benchmarks.peers.measuring import Served

EARLY, LATE = 10, 200
"""Turns at which the guard is asked and the turn is timed."""
AROUND = 5
"""Turns before and after each that are timed with it."""
ASKED = 500
"""How often the guard is asked in one place."""
DAY_S = 86_400
PEERS_RUNS, PEERS_TURNS = 5, 30
"""Runs that a peer makes a round, and the turns of each, as its script has them."""
WORDS = ("amber", "basalt", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "juniper", "kelp", "loam")
Seconds = dict[int, float]


def spec() -> FabricSpec:
    """The fabric of the benchmark."""
    plan = {
        "briefs": [{"agent": "worker", "title": "All of it", "instructions": "Find it."}],
        "exit_criteria": ["It is there."],
    }
    price = {"input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}
    return FabricSpec.model_validate(
        {
            "name": "turns",
            "title": "Turns",
            "models": [{"name": "model", "provider": "scripted", "price": price}],
            "tools": [{"name": "lookup"}],
            "agents": [
                {"name": "worker", "instructions": "Work.", "model": "model", "tools": ["lookup"]},
                {"name": "lead", "instructions": "Merge.", "model": "model"},
            ],
            "topology": {"plan": plan, "workers": ["worker"], "aggregator": "lead"},
            "policy": {
                "budget": {"run_usd_micros": 10_000_000_000},
                "limits": {"turns": LATE + 2 * AROUND},
                "deadlines": {"batch": {"call_s": 120, "stage_s": DAY_S, "run_s": DAY_S}},
            },
        }
    )


class Turns:
    """One run, turn by turn."""

    def __init__(self) -> None:
        made = spec()
        price = Price(input_usd_micros_per_mtok=1_000_000, output_usd_micros_per_mtok=2_000_000)
        self.compiled = compile_spec(made, prices={"model": price}, evaluators=gate_evaluators(made))
        self.run = Run("turns", tier=Tier.BATCH, seed=1)
        self.contents = Contents()
        self.now = 1_700_000_000 * US
        self._given = count(1)
        request = {"text": "Find it.", "documents": [], "document_bytes": []}
        deadline_at = self.now + DAY_S * US
        asked = RunRequested(input_id="start", request=request, deadline_at=deadline_at, requested_by="bench")
        self.call = self._only(CallModel, asked)

    def context(self) -> Context:
        """The world as it is now."""
        return Context(self.now, self.run.id, "trace", 1, self.compiled, self.contents)

    def _decided(self, given: Input) -> Decision:
        self.now += US // 10
        decision = decide(self.run, given, self.context())
        assert isinstance(decision, Decision)
        self.run = decision.run
        return decision

    def _only(self, kind: type[Any], given: Input) -> Any:
        [command] = self._decided(given).commands
        assert isinstance(command, kind), command
        return command

    def turn(self) -> float:
        """One turn: the model proposes a call, the guards look at it, the tool answers. Seconds that the engine took for it."""
        number = next(self._given)
        args = {"query": f"{WORDS[number % 12]} {WORDS[number // 12 % 12]} {WORDS[number // 144 % 12]}"}
        said = ToolCall(call_id=f"c{number}", tool="lookup", args=args)
        ids = {"command_id": self.call.command_id, "attempt": self.call.attempt}
        reply = ModelReplied(**ids, text="", calls=(said,), input_tokens=100, output_tokens=20, model="model")
        begun = time.perf_counter()
        asked = self._only(CallTool, reply)
        found = ToolFinished(
            command_id=asked.command_id, attempt=1, result={"text": f"Page {number} says {' '.join(args.values())}."}
        )
        self.call = self._only(CallModel, found)
        return time.perf_counter() - begun

    def guarded(self) -> float:
        """The median of asking the guard about the next tool call, seconds."""
        work = Work(self.run, self.context())
        step = self.run.steps[self.call.step_id]
        call = ev.ProposedCall(call_id="next", tool="lookup", args_hash="0" * 32)
        policy, args = self.compiled.spec.policy, {"query": "something else again"}
        spent = []
        for _ in range(ASKED):
            begun = time.perf_counter()
            proposal = calls.tool_proposal(work, step, call, (), step.turns, args=args)
            trips = guard.judge(proposal, work.view, policy)
            spent.append(time.perf_counter() - begun)
            assert not trips
        return statistics.median(spent)


def ours() -> tuple[Seconds, Seconds]:
    """Of one run: the guard's and a whole turn's seconds, early and late."""
    guards: Seconds = {}
    turns: dict[int, list[float]] = {EARLY: [], LATE: []}
    run = Turns()
    gc.collect()
    gc.disable()
    try:
        for number in range(1, LATE + AROUND + 1):
            seconds = run.turn()
            for mark, spent in turns.items():
                if abs(number - mark) <= AROUND:
                    spent.append(seconds)
            if number in turns:
                guards[number] = run.guarded()
    finally:
        gc.enable()
    return guards, {mark: statistics.median(spent) for mark, spent in turns.items()}


def measure(rounds: int, *, peers: bool) -> dict[str, Any]:
    """Microseconds of the guard and of a turn, medians over rounds; with ``peers`` beside a turn on LangGraph, each round right after ours."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        peer = _langgraph(stack, Path(folder)) if peers else None
        found = [(*ours(), _turn_of(peer) if peer else 0.0) for _ in range(rounds)]
    told: dict[str, Any] = {"work": "turn", "rounds": rounds}
    for mark in (EARLY, LATE):
        told[f"guard_us_at_{mark}"] = _us([guards[mark] for guards, _, _ in found])
        told[f"turn_us_at_{mark}"] = _us([turns[mark] for _, turns, _ in found])
    told["guard_late_to_early"] = _ratio([guards[LATE] / guards[EARLY] for guards, _, _ in found])
    told["turn_late_to_early"] = _ratio([turns[LATE] / turns[EARLY] for _, turns, _ in found])
    if peers:
        told["langgraph_turn_us"] = _us([theirs for _, _, theirs in found])
        told["ratio_to_langgraph"] = _ratio([turns[EARLY] / theirs for _, turns, theirs in found])
    return told


def _langgraph(stack: ExitStack, folder: Path) -> Served:
    from tests.benchmarks.peers.environments import ensure  # They load Django, which a turn needs not.
    from tests.benchmarks.peers.measuring import Served

    command = [str(ensure("langgraph")), "-m", "tests.benchmarks.peers.langgraph_turn"]
    peer = stack.enter_context(closing(Served(command, {**os.environ, "PYTHONPATH": str(ROOT)}, folder / "peer.log")))
    peer.ready()
    peer.go(PEERS_RUNS, 1)
    return peer


def _turn_of(peer: Served) -> float:
    """Seconds that a turn takes there."""
    return peer.go(PEERS_RUNS, 1)[0] / (PEERS_RUNS * PEERS_TURNS)


def _us(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1e6, 1)


def _ratio(ratios: list[float]) -> float:
    return round(statistics.median(ratios), 3)
