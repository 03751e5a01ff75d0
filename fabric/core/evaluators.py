"""What gates, the output schemas of agents and the rules of tools ask that an adapter compiled from the fabric: callables over JSON, handed to the core with the revision.

They are functions of the revision and of what they are given alone, so that a decision can be derived again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.frozen import value
from fabric.core.gates import Gates

JSON = Any
HITS_TOLD = 10


@value()
class Hit:
    """Something that a guardrail found. It never holds what was found: a hit is journaled and shown."""

    rule: str
    path: str
    excerpt: str
    """The first characters, the rest by its length."""

    def found(self) -> str:
        """What stands there, as a sentence without its path."""
        return f"looks like {self.rule} ({self.excerpt})"

    def said(self) -> str:
        """As a sentence with its path."""
        return f"{self.path or 'text'}: {self.found()}"


Scan = Callable[[JSON], list[Hit]]
"""Takes a value, gives what its guardrails found in it; empty when nothing."""


@value()
class Passage:
    """Words of a text that tell whoever reads it what to do. A content: shown to people, and never part of a fact."""

    rule: str
    before: str
    found: str
    after: str


Screen = Callable[[str, JSON], Passage | None]
"""Takes the reference of a content and the content, gives the first passage that instructs its reader; None: there is none."""


Holds = Callable[[Mapping[str, JSON]], str]
"""Takes what an expression may name, says what is wrong; an empty string where it holds."""


@value()
class Asked:
    """One action as policies see it: who, what, on what, under which circumstances."""

    action: str
    principal: tuple[str, str]
    """Its type and its name."""
    resource: tuple[str, str]
    context: Mapping[str, JSON]


@value()
class Ruling:
    """What policies say of one action."""

    why: str = ""
    """Why it is denied, as a sentence without anything that was to be done or said; empty: it is allowed."""
    policies: tuple[str, ...] = ()
    """Names of those that decided: that permit it, or that forbid it, or that could not be evaluated."""
    evaluated: bool = True
    """False: it is denied because it could not be evaluated."""


Rules = Callable[[Asked], Ruling]
Fits = Callable[[JSON], list[str]]
"""Takes the object whose field ``data`` is looked at, says what does not fit, a sentence each with its path; empty when it fits."""
When = Callable[[str, Mapping[str, JSON]], tuple[bool, str]]
"""Takes a condition that a model wrote and what it may name; says whether it holds, or why nobody can say."""
Asks = Callable[[Mapping[str, JSON]], tuple[bool, str]]
"""Takes what a tool's rule may name; says whether a person is asked, and, where they are because nobody can say what the rule says, why."""


@dataclass(frozen=True, slots=True)
class Evaluators:
    """All of one revision."""

    guardrails: Mapping[str, Scan] = field(default_factory=dict)
    """By place (``gates.PLACES``); a place that is missing has none."""
    invariants: Mapping[str, tuple[Holds, ...]] = field(default_factory=dict)
    """By stage, in the fabric's order."""
    oracle: tuple[Holds, ...] = ()
    """What a finished outcome is asked by itself, in the fabric's order."""
    oracle_answers: Mapping[str, Holds] = field(default_factory=dict)
    """What the answer of a tool or an address is asked, by name of the oracle's check."""
    rules: Rules | None = None
    """The policies; None: nobody is asked."""
    data: Mapping[str, Fits] = field(default_factory=dict)
    """The output schemas, by the name of their agent."""
    when: When | None = None
    """The conditions of planned calls; None: no agent of the fabric plans its calls."""
    approvals: Mapping[str, Asks] = field(default_factory=dict)
    """The rules before which calls a person is asked, by the name of their tool."""
    screen: Screen | None = None
    """Looks for instructions in what tools answered; None: nobody does."""
    digest: str = ""
    """Of everything in it; empty where it is empty."""

    def hits(self, place: str, given: JSON) -> list[str]:
        """What the guardrails of a place found, a sentence each."""
        scan = self.guardrails.get(place)
        return [] if scan is None else [hit.said() for hit in scan(given)[:HITS_TOLD]]

    def misfits(self, agent: str, answer: Mapping[str, JSON]) -> list[str]:
        """What of an answer's data does not fit the output schema of an agent. Data that is missing is not its business. KeyError for one without."""
        return self.data[agent](answer)

    def leaks(self, given: JSON) -> bool:
        """Whether any guardrail of any stage objects to what is about to leave the run."""
        return any(scan(given) for place, scan in self.guardrails.items() if place != "arguments")

    def broken(self, stage: str, about: Mapping[str, JSON]) -> list[str]:
        """What is wrong with the first invariant of a stage that does not hold; empty when all do."""
        return _first_broken(self.invariants.get(stage, ()), about)

    def unmet(self, about: Mapping[str, JSON]) -> list[str]:
        """What is wrong with the first condition of the oracle that does not hold; empty when all do."""
        return _first_broken(self.oracle, about)

    def contradicted(self, check: str, about: Mapping[str, JSON]) -> list[str]:
        """What is wrong with the answer that a check of the oracle was given; empty when it holds. KeyError for one without an expression."""
        return _first_broken((self.oracle_answers[check],), about)


def _first_broken(asked: Iterable[Holds], about: Mapping[str, JSON]) -> list[str]:
    said = (holds(about) for holds in asked)
    return [first] if (first := next((one for one in said if one), "")) else []


NO_EVALUATORS = Evaluators()


def lacking(gates: Gates, typed: Iterable[str], asking: Iterable[str], evaluators: Evaluators) -> str:
    """What the gates, the output schemas of those agents, or the rules of those tools ask for and nobody compiled; empty when nothing is missing. None of
    them must ever pass for want of its evaluators.
    """
    if gates.guardrails and not evaluators.guardrails:
        return "gates.guardrails"
    if gates.invariants and not evaluators.invariants:
        return "gates.invariants"
    for check in gates.oracle or ():
        held = evaluators.oracle_answers.get(check.name) if check.asks_world else evaluators.oracle
        if check.expression is not None and not held:
            return "gates.oracle"
    if gates.policies and evaluators.rules is None:
        return "gates.policies"
    missing = [f"the output schema of agent {name}" for name in typed if name not in evaluators.data]
    missing += [f"the rule of tool {name}" for name in asking if name not in evaluators.approvals]
    return next(iter(missing), "")
