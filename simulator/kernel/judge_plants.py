"""Planted bugs of judges and released outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from fabric.core import children, judging, releases
from fabric.core.child_inputs import ChildEnded
from fabric.core.flow import Stage
from fabric.core.frozen import replace
from fabric.core.judges import judges_of
from fabric.core.mechanisms import policy
from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.verdict import PASS, Trip, Verdict
from fabric.core.work import Work
from simulator.kernel import planting


def _passes_unheard() -> AbstractContextManager[None]:
    """A judge that has not been heard is taken to have accepted."""

    def heard(work: Work, stage: Stage, proposal: Proposal) -> judging.Heard:
        return judging.Heard({judge.branch: () for judge in judges_of(work.compiled.spec, stage)})

    return planting.attribute(judging, "heard", heard)


def _no_is_yes() -> AbstractContextManager[None]:
    """What a tool says to an oracle is not read."""
    return planting.attribute(judging, "_told", lambda work, judge, proposal, said: ())


def _released_by_finding() -> AbstractContextManager[None]:
    """A release holds for whatever is found to have the same in it."""
    own = releases.key
    return planting.attribute(releases, "key", lambda payload, problems: own(None, problems))


def _unsafe_arguments_pass() -> AbstractContextManager[None]:
    """Arguments that the guardrails object to are sent all the same."""
    own = policy.check

    def check(config: policy.Config, state: policy.State, proposal: Proposal, view: View) -> Verdict:
        found = own(config, state, proposal, view)
        looked = isinstance(found, Trip) and proposal.kind == "tool" and "problems" in found.evidence.details
        return PASS if looked else found

    return planting.attribute(policy, "check", check)


def _let_pass_unasked() -> AbstractContextManager[None]:
    """A child that has ended says that whatever it brings was let pass."""
    own = children.report

    def report(work: Work) -> None:
        own(work)
        if work.run.family.lineage is not None:
            told = work.outbox[-1]
            assert isinstance(told.given, ChildEnded)
            work.outbox[-1] = replace(told, given=replace(told.given, released=(*told.given.released, "0" * 32)))

    return planting.attribute(children, "report", report)


JUDGE_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "passes_unheard": _passes_unheard,
    "no_is_yes": _no_is_yes,
    "released_by_finding": _released_by_finding,
    "unsafe_arguments_pass": _unsafe_arguments_pass,
    "let_pass_unasked": _let_pass_unasked,
}
"""By name."""
