"""The check of calls that refer to others, fed with the facts of answers that broke off in mid-stream (docs/specification/agent-step.md)."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.events.parts import ProposedCall
from fabric.core.state.run import Run, Step
from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import Stage
from simulator.rules.calls.checks import references_are_followed
from simulator.rules.facts.journals import WatchedRun
from simulator.swarm.fabrics import publish
from tests.simulator.world.quiet_worlds import supervisor

STEP = "fan_out.0.e0.r0"
MODEL = f"{STEP}.t1"
FOUND = {"result": {"text": "lookup found it"}}


class Checked:
    """One step's facts, one after another; what the check says to each has to be nothing."""

    def __init__(self) -> None:
        after = Run("run", steps={STEP: Step(STEP, Stage.FAN_OUT, 0, 0, 0, "one")})
        self.after, self.seq = after, 0
        self.seen = WatchedRun("run", publish(supervisor(), "revision").compiled, after)

    @property
    def answers(self) -> Any:
        return self.seen.referred[STEP].get("answers", {})

    def take(self, fact: ev.Fact, content: Any = None, ref: str = "") -> None:
        self.seq += 1
        self.seen.content = encode(content) if content is not None else b""
        event = Event(self.seq, 0, fact, content_ref=ref)
        assert references_are_followed(self.seen, event, fact, self.after) == ""

    def begins(self, attempt: int, call_id: str, tool: str, index: int) -> None:
        """A call of an answer that is still coming in goes out."""
        streamed = ev.CallStreamed(
            command_id=MODEL, attempt=attempt, step_id=STEP, call_id=call_id, tool=tool, args_hash=tool, index=index
        )
        self.take(streamed, {"calls": [{"call_id": call_id, "tool": tool, "args": {"query": "begin 1"}}]})
        issued = ev.CallIssued(
            command_id=f"{MODEL}.c{index}",
            attempt=1,
            call="tool",
            step_id=STEP,
            agent="one",
            target=tool,
            turn=1,
            deadline_at=1,
            key=f"{index}",
            call_id=call_id,
            args_hash=tool,
        )
        self.take(issued)

    def asked(self, attempt: int) -> None:
        """A request goes out to the model."""
        issued = ev.CallIssued(
            command_id=MODEL,
            attempt=attempt,
            call="model",
            step_id=STEP,
            agent="one",
            target="model",
            turn=1,
            deadline_at=1,
            key="model",
        )
        self.take(issued)

    def came(self, call_id: str, tool: str, index: int, brought: Any) -> None:
        answered = ev.ToolAnswered(
            command_id=f"{MODEL}.c{index}",
            attempt=1,
            step_id=STEP,
            call_id=call_id,
            tool=tool,
            args_hash=tool,
            masked_hash=tool,
        )
        self.take(answered, brought, f"ref of {tool}")

    def whole(self, attempt: int, *calls: tuple[str, str]) -> None:
        proposed = tuple(ProposedCall(call_id=call_id, tool=tool, args_hash=tool) for call_id, tool in calls)
        told = [{"call_id": call_id, "tool": tool, "args": {"query": "begin 1"}} for call_id, tool in calls]
        answered = ev.ModelAnswered(command_id=MODEL, attempt=attempt, step_id=STEP, verdict="calls", calls=proposed)
        self.take(answered, {"calls": told})


def test_what_an_early_call_brought_is_forgotten_once_its_model_is_asked_anew() -> None:
    checked = Checked()
    checked.begins(1, "c1-0", "lookup", 0)
    checked.came("c1-0", "lookup", 0, FOUND)
    assert checked.answers == {"c1-0": FOUND}
    checked.asked(2)
    assert checked.answers == {}


def test_what_an_early_call_brought_stands_once_its_answer_is_whole() -> None:
    checked = Checked()
    checked.begins(1, "c1-0", "lookup", 0)
    checked.came("c1-0", "lookup", 0, FOUND)
    checked.whole(1, ("c1-0", "lookup"))
    checked.asked(1)
    assert checked.answers == {"c1-0": FOUND}
