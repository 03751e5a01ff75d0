"""The check of calls that refer to others, fed with the facts of answers that broke off in mid-stream (semantics.md 6 "Streams")."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.envelope import Event
from fabric.core.events.parts import ProposedCall
from fabric.core.fingerprint import encode
from fabric.core.flow import Stage
from fabric.core.run import Run, Step
from simulator.kernel.published import publish
from simulator.kernel.reference_checks import references_are_followed
from simulator.kernel.seen import Seen
from tests.simulator.kernel.worlds import supervisor

STEP = "fan_out.0.e0.r0"
MODEL = f"{STEP}.t1"
FOUND = {"result": {"text": "lookup found it"}}


class Checked:
    """One step's facts, one after another; what the check says to each has to be nothing."""

    def __init__(self) -> None:
        after = Run("run", steps={STEP: Step(STEP, Stage.FAN_OUT, 0, 0, 0, "one")})
        self.after, self.seq = after, 0
        self.seen = Seen("run", publish(supervisor(), "revision").compiled, after)

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


def broken_off() -> Checked:
    """An answer that broke off had begun a lookup, and the next one begins a poll under the same id; the lookup comes back in the end."""
    checked = Checked()
    checked.begins(1, "c1-0", "lookup", 0)
    checked.begins(2, "c1-0", "poll", 1)
    checked.came("c1-0", "poll", 1, {"result": {"text": "poll found it"}})
    checked.came("c1-0", "lookup", 0, FOUND)
    return checked


def test_what_a_call_of_an_answer_that_broke_off_brings_is_not_the_one_s_that_has_its_id_now() -> None:
    assert broken_off().answers == {"c1-0": {"result": {"text": "poll found it"}}}


def test_it_is_the_one_s_that_it_stands_for_once_the_whole_answer_proposes_it_again() -> None:
    checked = broken_off()
    checked.whole(2, ("c1-0", "poll"), ("c1-1", "lookup"))
    again = ev.CallDeduplicated(
        step_id=STEP, call_id="c1-1", tool="lookup", args_hash="lookup", turn=1, result_ref="ref of lookup", begun=True
    )
    checked.take(again)
    assert checked.answers["c1-1"] == FOUND
    assert checked.answers["c1-0"] == {"result": {"text": "poll found it"}}


def test_an_id_stands_for_the_newest_call_before_that_one_has_gone_out() -> None:
    checked = Checked()
    checked.begins(1, "c1-0", "lookup", 0)
    waits = ev.CallStreamed(
        command_id=MODEL, attempt=2, step_id=STEP, call_id="c1-0", tool="poll", args_hash="poll", index=1, after=("x",)
    )
    checked.take(waits, {"calls": [{"call_id": "c1-0", "tool": "poll", "args": {"query": "begin 1"}}]})
    checked.came("c1-0", "lookup", 0, FOUND)
    assert checked.answers == {}


def test_what_an_id_had_brought_is_forgotten_once_another_answer_uses_it() -> None:
    checked = Checked()
    checked.begins(1, "c1-0", "lookup", 0)
    checked.came("c1-0", "lookup", 0, FOUND)
    assert checked.answers == {"c1-0": FOUND}
    checked.begins(2, "c1-0", "poll", 1)
    assert checked.answers == {}


def test_a_whole_answer_of_which_nothing_had_streamed_ends_what_broke_off_before_it() -> None:
    checked = Checked()
    checked.begins(1, "c1-0", "lookup", 0)
    checked.whole(2, ("c1-0", "poll"))
    checked.came("c1-0", "lookup", 0, FOUND)
    assert checked.answers == {}
