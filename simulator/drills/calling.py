"""The call that fails, as a judge follows it: whom it is made to, which breakers it meets, which retry tokens and how much time there are for another attempt.

Out of semantics.md alone ("Circuit breakers", "Failover", "Retry budget", "Deadlines"): it shares the fabric's fields with the engine, and no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fabric.core.breaker.policy import Breaker, BreakerScope
from fabric.core.decision_table import Reaction
from fabric.core.policy import Retry
from fabric.core.spec import Capability
from simulator.drills.bounds import NONE, NotComputed, Span, exactly, over
from simulator.drills.layers import CALLS, Waits
from simulator.drills.shields import HERD, Shield, counts
from simulator.drills.tokens import Tokens

Meeting = Literal["failed", "refused", "probed"]
"""How a failure is met: a call came back, was not let out, or went out as a probe and came back."""
ANSWER = Span(0.4, 1.0)
"""How long an answer takes, with all that is written down about it; seconds."""
PERSON = Span(0.0, 2_000.0)
"""How long a person takes who answers at once."""
SLOWER = (0.8, 2.0)
"""How long the stages before the last take once more, in times of what they took."""


@dataclass(frozen=True, slots=True)
class Call:
    """One that was answered. ``model`` empty: a tool's."""

    at_s: float
    """When its answer came, seconds since the run began."""
    stage: str
    agent: str
    model: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """The run up to its last stage."""

    calls: tuple[Call, ...]
    lasts_s: float
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A model as far as it matters who stands in for whom."""

    endpoint: str
    capable: frozenset[Capability]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """Whose call it is, and what stands before it."""

    agent: str
    above: str
    """Whoever takes the step in a handover; empty: nobody."""
    own: Mapping[str, str]
    """The model of each of the two."""
    models: Mapping[str, Other]
    behind: tuple[str, ...]
    """Who may stand in for the agent's model, nearest first."""
    needs: frozenset[Capability]
    swaps: bool
    """Whether the tier changes a model without asking."""
    breakers: tuple[Breaker, ...]
    stage: str
    fabric: str
    retry: Retry
    layered: bool
    node: Waits
    call_s: float
    stage_s: float
    run_s: float
    earlier: Earlier


@dataclass(slots=True)
class Line:
    """One such call, and those that follow it, up to the end of the run."""

    of: Calling
    model: str = ""
    agent: str = ""
    runs: Span = NONE
    """How long the run has run..."""
    staged: Span = NONE
    """...and is in this stage."""
    met: Meeting = "failed"
    refused_by: Shield | None = None
    tried: set[str] = field(default_factory=set)
    final: bool = False
    """Its agent was stopped."""
    first: bool = True
    """Whether the next attempt is the call's first."""
    tokens: Tokens = field(init=False)
    shields: dict[tuple[int, str], Shield] = field(default_factory=dict)
    _opened: list[Shield] = field(default_factory=list)
    """Those that the last attempt left open: it was their probe, or the failure too many."""

    def __post_init__(self) -> None:
        self.tokens = Tokens(self.of.retry)
        self._enter((1.0, 1.0))

    # -- who is called, and what stands in front -----------------------------------------------------------------------

    def attempt(self, *, well: bool) -> bool:
        """The next attempt: whether it brings an answer. ``well``: nobody fails any more."""
        probes: list[Shield] = []
        met = list(self._shields(self.model, self.agent))
        for shield in met:
            passage = shield.passage()
            if passage == "refuse":
                self.met, self.refused_by, self.first = "refused", shield, False
                return False
            probes += [shield] * (passage == "probe")
        self.refused_by = None
        self._goes_out()
        if well or self.agent != self.of.agent:
            return True
        for shield in met:
            shield.ended(failed=True, probe=shield in probes)
        self.met, self._opened = ("probed" if probes else "failed"), [one for one in met if one.state != "closed"]
        return False

    def _goes_out(self) -> None:
        if self.first:
            self.tokens.sent(self._endpoint)
        self.first = False
        self._passes(ANSWER)

    def _shields(self, model: str, agent: str) -> Iterator[Shield]:
        """Those in front of a call, in the policy's order. A stand-in is the fallback of which ``on_open: model`` speaks."""
        stands_in = model != self.of.own[agent]
        names = {
            BreakerScope.AGENT: agent,
            BreakerScope.PROVIDER: self.of.models[model].endpoint,
            BreakerScope.STAGE: self.of.stage,
            BreakerScope.FABRIC: self.of.fabric,
        }
        for n, breaker in enumerate(self.of.breakers):
            name = names.get(breaker.scope)
            passes = stands_in and breaker.on_open == "model" and breaker.scope is not BreakerScope.PROVIDER
            if name is not None and breaker.before(name) and not passes and counts(breaker):
                yield self.shields.setdefault((n, name), Shield(breaker))

    def _hear(self, pace: tuple[float, float]) -> None:
        """What the calls before tell the breakers that stand in front of them too."""
        for call in self.of.earlier.calls:
            if not call.model:
                continue
            names = (call.agent, self.of.models[call.model].endpoint, call.stage, self.of.fabric)
            scopes = (BreakerScope.AGENT, BreakerScope.PROVIDER, BreakerScope.STAGE, BreakerScope.FABRIC)
            for n, breaker in enumerate(self.of.breakers):
                name = dict(zip(scopes, names, strict=True)).get(breaker.scope)
                if name is None or not breaker.before(name) or not counts(breaker):
                    continue
                shield = self.shields.setdefault((n, name), Shield(breaker))
                if shield.state != "closed":
                    raise NotComputed(
                        "a circuit breaker that is not closed stands before those who do the new plan too"
                    )
                ago = exactly(self.of.earlier.lasts_s - call.at_s).times(*pace)
                shield.ended(failed=False, ago=ago)

    # -- what may be done ----------------------------------------------------------------------------------------------

    def cannot(self, reaction: Reaction, spent: int) -> bool:
        """Whether a reaction that is the call's cannot apply. ``spent``: how often its rung was used."""
        match reaction:
            case Reaction.RETRY:
                there = self.met != "refused" and self.tokens.there(self._endpoint)
                return not there or self._late(self._backoff(spent))
            case Reaction.WAIT_FOR_BREAKER:
                wait = self._wait()
                return wait is None or self._late(wait)
            case Reaction.FALLBACK_MODEL:
                return self._stand_in() == ""
            case Reaction.RETRY_NODE:
                own = self.of.models[self.of.own[self.agent]].endpoint
                over = self.met == "refused" or self.final or not self.tokens.there(own)
                return over or self._late(self.of.node.before(spent + 1))
            case Reaction.SAFE_FALLBACK:
                return self.refused_by is not None and self.refused_by.policy.on_open != "static_answer"
        return False

    def _backoff(self, spent: int) -> Span:
        if self.of.layered:
            return CALLS.before(spent + 1)
        retry = self.of.retry
        return Span(0.0, min(retry.cap_s, retry.base_s * retry.factor**spent))

    def _wait(self) -> Span | None:
        """How long to wait for the breaker that refused the call, or for those that its probe opened again; None: there is nothing to wait for."""
        waits = [shield.left() for shield in self._in_the_way]
        known = [wait for wait in waits if wait is not None]
        if not known or len(known) < len(waits):
            return None
        return Span(max(one.low for one in known), max(one.high for one in known)).times(1.0, HERD)

    @property
    def _in_the_way(self) -> list[Shield]:
        """The breaker that refused the last attempt, or those that opened again with it."""
        return self._opened if self.refused_by is None else [self.refused_by]

    def _late(self, wait: Span) -> bool:
        """Whether an attempt after that wait would begin too near to the end of its stage or run."""
        call_s = self.of.call_s
        needs = wait.plus(exactly(min(call_s, max(2.0, 0.1 * call_s))))
        what = "whether there is time for another attempt"
        return over(self.staged.plus(needs), self.of.stage_s, what) or over(self.runs.plus(needs), self.of.run_s, what)

    @property
    def _endpoint(self) -> str:
        return self.of.models[self.model].endpoint

    def _stand_in(self) -> str:
        """The model that takes the call; empty: none may."""
        by = self.refused_by
        if not self.of.swaps or self.agent != self.of.agent or (by is not None and by.policy.on_open != "model"):
            return ""
        shut = self._endpoint if by is not None and by.policy.scope is BreakerScope.PROVIDER else None
        endpoints = list(dict.fromkeys(self.of.models[name].endpoint for name in self.of.behind))
        for name in sorted(self.of.behind, key=lambda name: endpoints.index(self.of.models[name].endpoint)):
            other = self.of.models[name]
            if name in self.tried or name == self.model or not self._needs <= other.capable or other.endpoint == shut:
                continue
            if by is None and any(one.would_refuse() for one in self._shields(name, self.agent)):
                continue
            if not self._late(NONE) and (other.endpoint != self._endpoint or self.tokens.there(other.endpoint)):
                return name
        return ""

    @property
    def _needs(self) -> frozenset[Capability]:
        return self.of.needs - {Capability.TOOL_USE} if self.final else self.of.needs

    # -- what is done --------------------------------------------------------------------------------------------------

    def done(self, reaction: Reaction, spent: int) -> None:
        """What a reaction makes of the call. ``spent``: how often its rung was used before."""
        match reaction:
            case Reaction.RETRY:
                self.tokens.take(self._endpoint)
                self._passes(self._backoff(spent))
            case Reaction.WAIT_FOR_BREAKER:
                self._passes(self._wait() or NONE)
                for shield in self._in_the_way:
                    shield.cooled()
            case Reaction.FALLBACK_MODEL:
                name = self._stand_in()
                if self.of.models[name].endpoint == self._endpoint:
                    self.tokens.take(self._endpoint)
                self.tried.add(self.model)
                self.model = name
            case Reaction.RETRY_NODE:
                self.tokens.take(self.of.models[self.of.own[self.agent]].endpoint)
                self._passes(self.of.node.before(spent + 1))
                self._opens(self.agent)
            case Reaction.HANDOVER:
                self._opens(self.of.above)
            case Reaction.ESCALATE:
                self._passes(PERSON)
                self._opens(self.agent)
            case Reaction.TERMINATE:
                self.final = True
                self._begins()

    def planned_again(self) -> None:
        """The stages before come once more, and then the call, as another one."""
        self._enter(SLOWER)

    def _enter(self, pace: tuple[float, float]) -> None:
        """Its stage is entered. ``pace``: how long those before took, in times of what they take undisturbed."""
        self._passes(exactly(self.of.earlier.lasts_s).times(*pace))
        self._hear(pace)
        for call in self.of.earlier.calls:
            self.tokens.issued()
            self.tokens.sent(self.of.models[call.model].endpoint if call.model else "")
        self.staged = NONE
        self._opens(self.of.agent)

    def _passes(self, time: Span) -> None:
        self.runs, self.staged = self.runs.plus(time), self.staged.plus(time)
        for shield in self.shields.values():
            shield.passes(time)

    def _opens(self, agent: str) -> None:
        """A step begins with its agent's own model, and calls of its own."""
        self.agent, self.model = agent, self.of.own[agent]
        self.final = False
        self._begins()

    def _begins(self) -> None:
        """Another call, of whom its step asks now."""
        self.tried.clear()
        self.first = True
        self.tokens.issued()
