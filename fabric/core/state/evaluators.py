"""Callables over JSON that an adapter compiled from the fabric: the checks of gates, output schemas and tools'
rules. The core receives them with the revision.

Their results depend only on the revision and the arguments, so that a decision can be derived again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fabric.core.spec.policies.gates import Gates
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON

HITS_TOLD = 10


@value()
class Hit:
    """A guardrail's finding, without the matching text, since a hit is journaled and shown."""

    rule: str
    path: str
    excerpt: str
    """The first characters, the rest by its length."""

    def describe_finding(self) -> str:
        """Return the finding as a sentence without its path."""
        return f"looks like {self.rule} ({self.excerpt})"

    def describe_place(self) -> str:
        """Return the finding as a sentence with its path."""
        return f"{self.path or 'text'}: {self.describe_finding()}"


Scan = Callable[[JSON], list[Hit]]
"""Takes a value and returns its guardrails' findings; empty without any."""


@value()
class Passage:
    """Words of a text that instruct its reader. A content: shown to people, and never part of a fact."""

    rule: str
    before: str
    found: str
    after: str


Screen = Callable[[str, JSON], Passage | None]
"""Takes the reference of a content and the content; returns the first passage that instructs its reader; None: none."""


Holds = Callable[[Mapping[str, JSON]], str]
"""Takes the values that an expression may name and returns the problem; "" if the expression is true."""


@value()
class PolicyRequest:
    """One action for the policies: principal, action, resource and context."""

    action: str
    principal: tuple[str, str]
    """Type and name of the principal."""
    resource: tuple[str, str]
    context: Mapping[str, JSON]


@value()
class Ruling:
    """The policies' answer about one action."""

    why: str = ""
    """Reason of the denial, as a sentence without the action's data; "" if allowed."""
    policies: tuple[str, ...] = ()
    """Names of those that decided: that permit it, or that forbid it, or that could not be evaluated."""
    evaluated: bool = True
    """False: it is denied because it could not be evaluated."""


Rules = Callable[[PolicyRequest], Ruling]
Fits = Callable[[JSON], list[str]]
"""Takes the object with the field ``data`` and returns its problems, a sentence each with its path. Empty if
it fits.
"""
When = Callable[[str, Mapping[str, JSON]], tuple[bool, str]]
"""Takes a condition that a model wrote, and the values it may name. Returns its truth, or the reason why it cannot be
evaluated.
"""
Asks = Callable[[Mapping[str, JSON]], tuple[bool, str]]
"""Takes the values that a tool's rule may name. Returns True if a person must approve, and the reason if that is
because the rule could not be evaluated.
"""


@dataclass(frozen=True, slots=True)
class Evaluators:
    """Compiled checks of one revision."""

    guardrails: Mapping[str, Scan] = field(default_factory=dict)
    """Guardrails by place (``gates.PLACES``); a missing place has none."""
    invariants: Mapping[str, tuple[Holds, ...]] = field(default_factory=dict)
    """Invariants by stage, in the fabric's order."""
    oracle: tuple[Holds, ...] = ()
    """The checks that a finished outcome passes without a person, in the fabric's order."""
    oracle_answers: Mapping[str, Holds] = field(default_factory=dict)
    """Condition on the answer of a tool or an address, by name of the oracle's check."""
    rules: Rules | None = None
    """The policies; None: the fabric has none."""
    data: Mapping[str, Fits] = field(default_factory=dict)
    """The output schemas, by the name of their agent."""
    when: When | None = None
    """The conditions of planned calls; None: no agent of the fabric plans its calls."""
    approvals: Mapping[str, Asks] = field(default_factory=dict)
    """Rules that require a review before a call, by the name of their tool."""
    screen: Screen | None = None
    """Looks for instructions in tools' answers; None: they are not screened."""
    digest: str = ""
    """Digest of all evaluators; "" if there are none."""

    def hits(self, place: str, given: JSON) -> list[str]:
        """Return the findings of a place's guardrails, one sentence each."""
        scan = self.guardrails.get(place)
        return [] if scan is None else [hit.describe_place() for hit in scan(given)[:HITS_TOLD]]

    def misfits(self, agent: str, answer: Mapping[str, JSON]) -> list[str]:
        """Return the problems of an answer's data under an agent's output schema. Missing data is checked elsewhere.
        Raises KeyError for an agent without a schema.
        """
        return self.data[agent](answer)

    def leaks(self, given: JSON) -> bool:
        """Return True if any guardrail of any stage objects to content that is about to leave the run."""
        return any(scan(given) for place, scan in self.guardrails.items() if place != "arguments")

    def list_broken(self, stage: str, about: Mapping[str, JSON]) -> list[str]:
        """Return the problems of a stage's first broken invariant; empty if all hold."""
        return _first_broken(self.invariants.get(stage, ()), about)

    def unmet(self, about: Mapping[str, JSON]) -> list[str]:
        """Return the problems of the oracle's first broken condition; empty if all hold."""
        return _first_broken(self.oracle, about)

    def list_contradictions(self, check: str, about: Mapping[str, JSON]) -> list[str]:
        """Return the problems of the answer that a check of the oracle received; empty if it holds. Raises KeyError
        for a check without an expression.
        """
        return _first_broken((self.oracle_answers[check],), about)


def _first_broken(asked: Iterable[Holds], about: Mapping[str, JSON]) -> list[str]:
    said = (holds(about) for holds in asked)
    return [first] if (first := next((one for one in said if one), "")) else []


NO_EVALUATORS = Evaluators()


def find_lacking(gates: Gates, typed: Iterable[str], asking: Iterable[str], evaluators: Evaluators) -> str:
    """Return the first thing that gates, output schemas or rules of tools need and that was not compiled. "": nothing
    is missing. No check may pass because its evaluator is missing.
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
