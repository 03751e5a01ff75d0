"""A child run's tool answers are sources of its parent's answer (docs/specification/gates.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.decision.slices import from_child
from fabric.core.evolve import fold
from fabric.core.stages.forks import find_fork_point
from fabric.core.state.run import Run
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.frozen import replace
from tests.fabric.core.families import Household
from tests.fabric.core.scripts import asks, gives, scored, summary
from tests.fabric.core.stages.test_judge_runs import ACCEPTS
from tests.fabric.core.topologies.fabrics import hierarchy, under

LOOKS = {
    "ann": [asks(), summary("It was 4711.")],
    "look": gives({"total": 4711}),
    "solo": summary("Nothing."),
    "ed": summary("All in all 4711."),
    "jo": lambda command: ACCEPTS if command.output == "judgement" else scored(0.9),
}


def led(**gates):
    """A team of ann, who looks things up, beside solo, who does not; ed says what both come to, and jo judges it."""
    return hierarchy(
        under("lead", "solo", aggregator="ed", critic="jo"),
        {"lead": under("ann")},
        gates=gates or {"grounding": "numbers"},
        tools=("look",),
        agents={"ann": {"tools": ["look"]}},
    )


def held(script, fabric=None):
    return Household(fabric or led(), LOOKS | script).start().go()


def test_what_a_team_looked_up_founds_the_whole_answer():
    family = held({})
    assert family.end.state is RunState.COMPLETED
    assert [one.run.state for one in family.runs.values()] == [RunState.COMPLETED] * 2


@pytest.mark.parametrize(
    ("script", "failed"),
    [
        ({"ann": [asks(), summary("It was 4712.")], "ed": summary("All in all 4712.")}, "child"),
        ({"ed": summary("All in all 4712.")}, "root"),
        ({"solo": summary("It was 4713."), "ed": summary("It was 4713.")}, "root"),
    ],
)
def test_claims_without_a_source_are_founded_in_nothing_wherever_it_is_said(script, failed):
    family = held(script)
    assert family.end.state is RunState.FAILED
    where = family.root if failed == "root" else family.children[0]
    assert "grounding" in where.of(ev.RunEnded)[0].reason


def test_a_person_s_words_in_place_of_a_team_s_are_no_source():
    root = held({}).root
    step = next(one for one in root.run.steps.values() if from_child(root.run, one))
    assert (step.agent, step.status) == ("lead", "done")
    assert not from_child(root.run, replace(step, output_ref="0" * 32))


def test_a_judge_of_grounding_reads_what_a_team_said():
    family = held({}, led(grounding="citations", grounding_critic="jo"))
    assert family.end.state is RunState.COMPLETED
    asked = [one for run_id, one in family.requests if run_id == "root" and one.agent == "jo"]
    assert "What tools answered" in (told := "".join(message.text for message in asked[0].messages))
    assert "It was 4711." in told


def test_a_fork_that_keeps_a_team_s_answer_rests_on_it_too():
    root = held({}).root
    entered = next(
        one.seq for one in root.events if isinstance(one.fact, ev.StageEntered) and one.fact.stage is Stage.FAN_IN
    )
    point = find_fork_point(fold(Run("root", tier=root.tier, seed=root.seed), root.events[:entered]), sources=True)
    [lead] = [ref for branch, agent, ref in point.branches if agent == "lead"]
    assert [part[:2] for part in point.parts] == [(0, lead)]
