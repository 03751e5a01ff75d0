"""One agent's step as the loop detector sees it, call by call."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.mechanisms import loop_detector
from fabric.core.spec.policies.loop_limits import LoopDetector
from fabric.core.values.fingerprint import fingerprint, masked_fingerprint
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import PASS
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import STEP, at, issued

CONFIG = LoopDetector()
SAME_CALLS = f"3 times within {CONFIG.identical_window} calls, and each result was the same (limit 3)"
"""The words of detector A."""
PENDING = object()


class Failed:
    """A result that is an error of the tool."""

    def __init__(self, failure: object) -> None:
        self.failure = failure


class Window:
    """One agent step: each turn proposes calls, those that pass are executed and give their results."""

    def __init__(self, config: LoopDetector = CONFIG, polls: str = "") -> None:
        self.config, self.state, self.turn, self.view = config, loop_detector.State(), 0, view()
        if polls:
            tools = [t.model_copy(update={"name": polls, "polling": True}) for t in self.view.spec.tools[:1]]
            self.view = replace(self.view, spec=self.view.spec.model_copy(update={"tools": tuple(tools)}))

    def propose(self, *calls, polling: bool = False):
        """The verdicts of one turn. A call is ``(tool, args, result)``; blocked calls are not executed and leave the window."""
        self.turn += 1
        wave = tuple((tool, fingerprint(args)) for tool, args, _ in calls)
        return [self._one(n, call, wave, polling) for n, call in enumerate(calls)]

    def _one(self, n, call, wave, polling):
        tool, args, result = call
        judged = proposal(target=tool, args_hash=fingerprint(args), turn=self.turn, wave=wave, polling=polling)
        verdict = loop_detector.check(self.config, self.state, judged, self.view)
        if verdict is PASS:
            given = {"target": tool, "args_hash": fingerprint(args), "turn": self.turn, "call_id": f"c{self.turn}.{n}"}
            self.state = loop_detector.observe(self.state, at(issued(f"t{self.turn}.{n}", call="tool", **given)))
            if result is not PENDING:
                self.finish(f"c{self.turn}.{n}", tool, args, result)
        return verdict

    def finish(self, call_id, tool, args, result):
        failure = f"fan_out.0/{tool}|{result.failure}" if isinstance(result, Failed) else ""
        done = ev.ToolAnswered(
            command_id="x",
            attempt=1,
            step_id=STEP,
            call_id=call_id,
            tool=tool,
            args_hash=fingerprint(args),
            masked_hash=masked_fingerprint(result.failure if failure else result),
            failure=failure,
        )
        self.state = loop_detector.observe(self.state, at(done))

    def run(self, calls, **fields):
        """The detector that stopped, and at which proposal (from 1); None when nothing did."""
        for number, call in enumerate(calls, start=1):
            (verdict,) = self.propose(call, **fields)
            if verdict is not PASS:
                return verdict.evidence.details["detector"], number
        return None


def look(q="x", result="the same"):
    return ("look", {"q": q}, result)
