"""``evaluate_detectors`` and the engine trip at the same places of a trace (docs/reference/detectors.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fabric.core import events as ev
from fabric.core.values.taxonomy import Tier
from fabric.services.runs.traces.detector_trial import OURS, stopped_by, trips
from fabric.services.runs.traces.reader import Trace, TraceStep, is_answer, is_person, persons_words, traces_in
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import asks, call, gives, say, summary
from tests.fabric.services.runs.traces.test_detector_trial import CAUGHT, NEVER, step

TRACES = Path(__file__).parents[4] / "data" / "traces"
MANY = 1_000
ABORT = {"rungs": [{"reaction": "abort"}]}
ASK = "ask"


def words(mark: str, chars: int = MANY) -> str:
    """A text that is the same where ``mark`` is, that masking leaves alone, and that says enough only where the recorded one did."""
    named = "".join("ghjkmnpqrstuvwxy"[int(char, 16)] for char in mark.encode().hex())
    return f"the words {named} {'and more ' * 8}" if chars >= 40 else named[:30]


class Replay:
    """A recorded trace as what one agent of a run proposes, what its tools answer and what a person says in between."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.tools = {
            name: f"tool-{n}" for n, name in enumerate({s.tool: None for s in trace.steps if s.kind == "tool"})
        }
        self.said: list[int] = []
        self.words = persons_words(trace.steps)
        self._numbers = iter(range(len(trace.steps)))

    def worker(self, command):
        for number in self._numbers:
            one = self.trace.steps[number]
            if number in self.words:
                self.said.append(number)
                return asks(call(ASK, f"{number}"))
            if one.kind == "tool":
                self.said.append(number)
                return asks(call(self.tools[one.tool], f"{number}", **arguments(one)), text=self.announced(number))
            if is_answer(self.trace.steps, number):
                self.said.append(number)
                return say(words(one.masked, one.chars))
        return summary()

    def announced(self, number: int) -> str:
        """Return what its agent said right before a call."""
        before = self.trace.steps[number - 1]
        own = number > 0 and before.kind in ("model", "message") and before.agent == self.trace.steps[number].agent
        return before.said if own and not is_person(before) else ""

    def tool(self, command):
        one = self.trace.steps[int(command.call_id)]
        return gives(words(one.masked), error=one.error)

    def run(self) -> World:
        names = tuple(self.tools.values())
        fabric = lone(
            tools=(*names, ASK),
            table={"infinite_tool_loop": {"batch": ABORT}},
            limits={"turns": MANY, "corrections_per_step": MANY},
            progress={"agent_turns": 100},
        )
        tools = [t.model_copy(update={"effect": "irreversible"}) if t.name == ASK else t for t in fabric.tools]
        script = {"worker": self.worker, **dict.fromkeys(names, self.tool)}
        world = World(fabric.model_copy(update={"tools": tuple(tools)}), script, tier=Tier.BATCH).start().go()
        while world.run.reviews:
            assert world.review.fact.item == "pre_action", "asked about what no recorded person spoke of"
            world.decide("respond", message="go on").go()
        return world


def arguments(one: TraceStep):
    try:
        found = json.loads(one.args)
    except ValueError:
        return {"text": one.args}
    return found if isinstance(found, dict) else {"text": one.args}


def by_the_evaluation(trace: Trace) -> tuple[int, set[str]] | None:
    ours = [(number, name) for number, name in trips(trace) if name in OURS]
    return (ours[0][0], {name for number, name in ours if number == ours[0][0]}) if ours else None


def by_the_engine(trace: Trace) -> tuple[int, str] | None:
    replay = Replay(trace)
    world = replay.run()
    answered, number = 0, -1
    for fact in world.facts:
        if isinstance(fact, ev.ModelAnswered):
            number = replay.said[answered] if answered < len(replay.said) else number
            answered += 1
        elif isinstance(fact, ev.ReactionDecided):
            # The recorded answers are none that the step could end with: the third equal one spends its corrections.
            other = "same_answer" if fact.cause.evidence.unit == "answers" else fact.cause.mechanism
            detector = fact.cause.evidence.details.get("detector", other)
            return number, str(detector)
    assert answered == len(replay.said) + 1, "the whole trace was played"
    return None


def agree(trace: Trace) -> None:
    said, done = by_the_evaluation(trace), by_the_engine(trace)
    if said is None or done is None:
        assert (said, done) == (None, None)
    else:
        assert done[0] == said[0]
        assert done[1] in said[1] or coarse(trace)


def coarse(trace: Trace) -> bool:
    """Return True if its errors say less than its contents ("exitcode: 1"): a tool of ours has one text for both, so two results that differ in the record do not
    differ in the run, and another rule may be the one that trips at the very same place.
    """
    errors = {(s.tool, s.error, s.masked) for s in trace.steps if s.error}
    return len({(tool, error) for tool, error, _ in errors}) < len(errors)


def made(steps: list[TraceStep]) -> Trace:
    return Trace("made", success=True, halted=False, steps=tuple(steps))


MADE = {
    **{f"caught by {name}": steps for name, steps in CAUGHT.items() if name in OURS},
    **{f"caught by {name}, one less": steps[1:] for name, steps in CAUGHT.items() if name in OURS},
    **{
        name: steps
        for name, steps in NEVER.items()
        if persons_words(steps) == {n for n, s in enumerate(steps) if is_person(s)}
    },
}
"""Without those in which a program says the same again in a person's place: no run of ours is told by one."""


@pytest.mark.parametrize("steps", MADE.values(), ids=MADE)
def test_they_agree_about_what_must_and_must_never_fire(steps):
    agree(alone(made(steps)))


def said(n: int = 0) -> TraceStep:
    return step("message", "user", masked=f"go on {n}")


def broken(n: int = 0) -> TraceStep:
    return step(args=f"try {n}", masked=f"m{n}", error="no such file: line 7")


SPOKEN = {
    "a word lets one more error pass": [broken(1), broken(2), said(), broken(3)],
    "and the next one stops": [broken(1), broken(2), said(), broken(3), broken(4)],
    "two words let two pass": [broken(1), broken(2), said(1), broken(3), said(2), broken(4)],
    "and a third none": [broken(1), broken(2), said(1), broken(3), said(2), broken(4), said(3), broken(5)],
    "a word before excuses nothing": [said(), broken(1), broken(2), broken(3)],
    "a word begins the windows anew": [step(), step(), said(), step(), step()],
    "and then they fill again": [step(), step(), said(), step(), step(), step()],
    "answers too": [one for n in range(4) for one in ([step("message", masked="same")] + ([said()] if n == 1 else []))],
}


@pytest.mark.parametrize("steps", SPOKEN.values(), ids=SPOKEN)
def test_they_agree_about_a_persons_word(steps):
    agree(alone(made(steps)))


def alone(trace: Trace) -> Trace:
    """The same with one agent for all: they share its conversation."""
    return replace(trace, steps=tuple(s if is_person(s) else replace(s, agent="worker") for s in trace.steps))


def by_agent(trace: Trace) -> Iterator[Trace]:
    """Yield what each agent did by itself, with what people said."""
    for name in dict.fromkeys(s.agent for s in trace.steps if not is_person(s)):
        yield replace(trace, steps=tuple(s for s in trace.steps if is_person(s) or s.agent == name))


RECORDED = [(name, trace) for name, traces in traces_in(TRACES) for trace in traces]
STOPPED = [(name, trace) for name, trace in RECORDED if "ours" in stopped_by(trace)]
SAMPLE = [*STOPPED, *[pair for pair in RECORDED if pair not in STOPPED and len(pair[1].steps) < 60][::12]]


@pytest.mark.parametrize(
    "trace", [trace for _, trace in SAMPLE], ids=[f"{name}-{trace.trace_id}" for name, trace in SAMPLE]
)
def test_they_agree_about_recorded_runs(trace):
    agree(alone(trace))
    for one in by_agent(trace):
        agree(alone(one))


def test_the_sample_holds_every_run_that_is_stopped_and_some_that_are_not():
    assert len(STOPPED) == 19
    assert len(SAMPLE) >= 35
