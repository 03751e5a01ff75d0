"""Graphs drawn by hypothesis: every kind of condition and target, of three participants."""

from __future__ import annotations

from hypothesis import strategies as st

from fabric.core.graph import conditions as c
from fabric.core.graph.spec import Transition, TransitionGraph, TurnWithin
from fabric.core.graph.state import NodeOutcome
from fabric.core.values.taxonomy import ErrorClass
from tests.fabric.core.graph.graphs import PEOPLE

AGENTS = st.sampled_from(PEOPLE)
TOOLS = st.sampled_from(["t1", "t2", "t3"])
KEYS = st.sampled_from(["k1", "k2", "failure_class"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["x", "y", "é"])
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2)

_LEAVES = st.one_of(
    st.just(c.Always()),
    AGENTS.map(lambda one: c.FromSpeaker(agent=one)),
    TOOLS.map(lambda one: c.ToolCalled(tool=one)),
    st.builds(c.ContextEquals, key=KEYS, value=VALUES),
    st.sampled_from(NodeOutcome).map(lambda one: c.OutcomeIs(outcome=one)),
    st.sampled_from(ErrorClass).map(lambda one: c.ErrorClassIs(failure_class=one)),
)


def _grown(inner):
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        several.map(lambda ones: c.AllOf(conditions=ones)),
        several.map(lambda ones: c.AnyOf(conditions=ones)),
        inner.map(lambda one: c.Not(condition=one)),
    )


CONDITIONS = st.recursive(_LEAVES, _grown, max_leaves=5).filter(lambda one: c.depth(one) <= c.DEPTH_MAX)
TARGETS = st.one_of(
    AGENTS.map(lambda one: c.ToAgent(agent=one)),
    st.just(c.RoundRobin()),
    st.just(c.Stay()),
    st.just(c.RevertToInitiator()),
    st.sampled_from(["done", "enough"]).map(lambda one: c.Terminate(reason=one)),
)
TRANSITIONS = st.builds(Transition, when=CONDITIONS, then=TARGETS, order=st.integers(-2, 2))


def graphs() -> st.SearchStrategy[TransitionGraph]:
    """Any graph of built-in kinds."""
    return st.builds(
        TransitionGraph,
        participants=st.permutations(PEOPLE).map(tuple),
        initial_speaker=AGENTS,
        initiator=st.none() | AGENTS,
        transitions=st.lists(TRANSITIONS, max_size=5).map(tuple),
        default_target=st.none() | TARGETS,
        max_turns=st.none() | st.integers(1, 6),
        expectations=st.just((TurnWithin(seconds=1.5),)) | st.just(()),
        ttl_s=st.none() | st.just(60),
    )
