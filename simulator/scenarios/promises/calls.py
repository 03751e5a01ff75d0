"""Models the failing call for the judge: its target, breakers, retry tokens and remaining time.

It follows docs/specification/README.md ("Circuit breakers", "Failover", "Retry budget", "Deadlines"). It shares the
fabric's fields with the engine, but no rule. Retry tokens are counted in thousandths (docs/specification/retries.md),
in a bucket of the run and one of each provider's endpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fabric.core.spec.policies.breakers import Breaker, BreakerScope
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.policies.limits import Retry
from fabric.core.spec.tree import Capability
from simulator.scenarios.promises.breakers import HERD, Shield, counts
from simulator.scenarios.promises.layers import CALLS, NONE, NotComputed, Span, Waits, exactly, reaches_limit

TOKEN = 1_000
OF_A_PROVIDER = 10
"""Tokens in the bucket of a provider, in any fabric."""
OWN, OF_THE_FABRIC = "", "*"


@dataclass(slots=True)
class Tokens:
    """Buckets of a run: its own, its fabric's and those of endpoints, which no other run uses.

    They are full before the run's first retry, so that it never takes a token on credit: credit is for a run that has
    not retried in its stage.
    """

    policy: Retry
    levels: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    """Retries in the stage of the failing call."""

    def record_issue(self) -> None:
        """Record a planned first attempt, which earns in the run's own bucket."""
        self._earn(OWN)

    def record_send(self, endpoint: str) -> None:
        """Record a first attempt that went out: it earns in shared buckets. ``endpoint``: empty for a tool's call."""
        self._earn(OF_THE_FABRIC)
        if endpoint:
            self._earn(endpoint)

    def there(self, endpoint: str) -> bool:
        """Return True if each bucket has a token, and the stage may retry."""
        most = self.policy.stage_retries
        if most is not None and self.retries >= most:
            return False
        return all(self._level(bucket) >= TOKEN for bucket in self._list_buckets(endpoint))

    def take(self, endpoint: str) -> None:
        """Take one token of each."""
        self.retries += 1
        for bucket in self._list_buckets(endpoint):
            self.levels[bucket] = self._level(bucket) - TOKEN

    def _list_buckets(self, endpoint: str) -> tuple[str, ...]:
        return (OWN, OF_THE_FABRIC, endpoint) if self.policy.shared else (OWN,)

    def _earn(self, bucket: str) -> None:
        self.levels[bucket] = min(self._size(bucket), self._level(bucket) + round(self.policy.earn * TOKEN))

    def _size(self, bucket: str) -> int:
        return TOKEN * (self.policy.bucket if bucket in (OWN, OF_THE_FABRIC) else OF_A_PROVIDER)

    def _level(self, bucket: str) -> int:
        return self.levels.get(bucket, self._size(bucket))


Meeting = Literal["failed", "refused", "probed"]
"""Ways in which a failure is met: a call returned, was held back, or returned as a probe."""
ANSWER = Span(0.4, 1.0)
"""Duration of an answer with its writes, in seconds."""
PERSON = Span(0.0, 2_000.0)
"""Seconds that a person takes who answers at once."""
SLOWER = (0.8, 2.0)
"""Duration of repeated earlier stages, as a multiple of their first duration."""


@dataclass(frozen=True, slots=True)
class Call:
    """An answered call. ``model``: empty for a tool's."""

    at_s: float
    """Instant of its answer, in seconds since the run began."""
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
    """Properties of a model that decide a fallback's choice: endpoint and capabilities."""

    endpoint: str
    capable: frozenset[Capability]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """The calling agent, and its surroundings."""

    agent: str
    above: str
    """Agent that takes the step in a handover; empty for none."""
    own: Mapping[str, str]
    """Model of each agent."""
    models: Mapping[str, Other]
    behind: tuple[str, ...]
    """Fallbacks of the agent's model, nearest first."""
    needs: frozenset[Capability]
    falls_back: bool
    """True if the tier changes a model without a review."""
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
class CallLine:
    """One such call, and those that follow it, up to the end of the run."""

    of: Calling
    model: str = ""
    agent: str = ""
    runs: Span = NONE
    """Age of the run."""
    staged: Span = NONE
    """Time in its stage."""
    met: Meeting = "failed"
    refused_by: Shield | None = None
    tried: set[str] = field(default_factory=set)
    final: bool = False
    """True if its agent was stopped."""
    first: bool = True
    """True if the next attempt is the call's first."""
    tokens: Tokens = field(init=False)
    shields: dict[tuple[int, str], Shield] = field(default_factory=dict)
    _opened: list[Shield] = field(default_factory=list)
    """Breakers that the last attempt opened, as their probe or as the last counted failure."""

    def __post_init__(self) -> None:
        self.tokens = Tokens(self.of.retry)
        self._enter((1.0, 1.0))

    # -- who is called, and what stands in front -----------------------------------------------------------------------

    def attempt(self, *, well: bool) -> bool:
        """Make the next attempt; return True if it brings an answer. ``well``: the failure is over."""
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
            shield.record_end(failed=True, probe=shield in probes)
        self.met, self._opened = ("probed" if probes else "failed"), [one for one in met if one.state != "closed"]
        return False

    def _goes_out(self) -> None:
        if self.first:
            self.tokens.record_send(self._endpoint)
        self.first = False
        self._passes(ANSWER)

    def _shields(self, model: str, agent: str) -> Iterator[Shield]:
        """Yield the breakers before a call, in the policy's order.

        A fallback model is the one of which ``on_open: model`` speaks.
        """
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
            if name is not None and breaker.stands_before(name) and not passes and counts(breaker):
                yield self.shields.setdefault((n, name), Shield(breaker))

    def _hear(self, pace: tuple[float, float]) -> None:
        """Report the earlier calls to the breakers that stand before them too."""
        for call in self.of.earlier.calls:
            if not call.model:
                continue
            names = (call.agent, self.of.models[call.model].endpoint, call.stage, self.of.fabric)
            scopes = (BreakerScope.AGENT, BreakerScope.PROVIDER, BreakerScope.STAGE, BreakerScope.FABRIC)
            for n, breaker in enumerate(self.of.breakers):
                name = dict(zip(scopes, names, strict=True)).get(breaker.scope)
                if name is None or not breaker.stands_before(name) or not counts(breaker):
                    continue
                shield = self.shields.setdefault((n, name), Shield(breaker))
                if shield.state != "closed":
                    raise NotComputed(
                        "a circuit breaker that is not closed stands before those who do the new plan too"
                    )
                ago = exactly(self.of.earlier.lasts_s - call.at_s).times(*pace)
                shield.record_end(failed=False, ago=ago)

    # -- what may be done ----------------------------------------------------------------------------------------------

    def cannot(self, reaction: Reaction, spent: int) -> bool:
        """Return True if a reaction of the call cannot apply. ``spent``: number of uses of its rung."""
        match reaction:
            case Reaction.RETRY:
                there = self.met != "refused" and self.tokens.there(self._endpoint)
                return not there or self._late(self._backoff(spent))
            case Reaction.WAIT_FOR_BREAKER:
                wait = self._wait()
                return wait is None or self._late(wait)
            case Reaction.FALLBACK_MODEL:
                return self._fallback() == ""
            case Reaction.RETRY_NODE:
                own = self.of.models[self.of.own[self.agent]].endpoint
                over = self.met == "refused" or self.final or not self.tokens.there(own)
                return over or self._late(self.of.node.find_wait(spent + 1))
            case Reaction.SAFE_FALLBACK:
                return self.refused_by is not None and self.refused_by.policy.on_open != "static_answer"
        return False

    def _backoff(self, spent: int) -> Span:
        if self.of.layered:
            return CALLS.find_wait(spent + 1)
        retry = self.of.retry
        return Span(0.0, min(retry.cap_s, retry.base_s * retry.factor**spent))

    def _wait(self) -> Span | None:
        """Return the wait for the breaker that refused the call, or for those that its probe opened. None: no wait."""
        waits = [shield.measure_rest() for shield in self._in_the_way]
        known = [wait for wait in waits if wait is not None]
        if not known or len(known) < len(waits):
            return None
        return Span(max(one.low for one in known), max(one.high for one in known)).times(1.0, HERD)

    @property
    def _in_the_way(self) -> list[Shield]:
        """Return the breaker that refused the last attempt, or those that opened again with it."""
        return self._opened if self.refused_by is None else [self.refused_by]

    def _late(self, wait: Span) -> bool:
        """Return True if an attempt after that wait would begin too near to the end of its stage or run."""
        call_s = self.of.call_s
        needs = wait.plus(exactly(min(call_s, max(2.0, 0.1 * call_s))))
        what = "whether there is time for another attempt"
        return reaches_limit(self.staged.plus(needs), self.of.stage_s, what) or reaches_limit(
            self.runs.plus(needs), self.of.run_s, what
        )

    @property
    def _endpoint(self) -> str:
        return self.of.models[self.model].endpoint

    def _fallback(self) -> str:
        """Return the fallback model that takes the call; empty for none."""
        by = self.refused_by
        if not self.of.falls_back or self.agent != self.of.agent or (by is not None and by.policy.on_open != "model"):
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

    def apply_reaction(self, reaction: Reaction, spent: int) -> None:
        """Apply a reaction to the call. ``spent``: number of earlier uses of its rung."""
        match reaction:
            case Reaction.RETRY:
                self.tokens.take(self._endpoint)
                self._passes(self._backoff(spent))
            case Reaction.WAIT_FOR_BREAKER:
                self._passes(self._wait() or NONE)
                for shield in self._in_the_way:
                    shield.half_open()
            case Reaction.FALLBACK_MODEL:
                name = self._fallback()
                if self.of.models[name].endpoint == self._endpoint:
                    self.tokens.take(self._endpoint)
                self.tried.add(self.model)
                self.model = name
            case Reaction.RETRY_NODE:
                self.tokens.take(self.of.models[self.of.own[self.agent]].endpoint)
                self._passes(self.of.node.find_wait(spent + 1))
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
        """Repeat the earlier stages, and then the call as another one."""
        self._enter(SLOWER)

    def _enter(self, pace: tuple[float, float]) -> None:
        """Enter its stage. ``pace``: duration of the earlier stages, as a multiple of their undisturbed one."""
        self._passes(exactly(self.of.earlier.lasts_s).times(*pace))
        self._hear(pace)
        for call in self.of.earlier.calls:
            self.tokens.record_issue()
            self.tokens.record_send(self.of.models[call.model].endpoint if call.model else "")
        self.staged = NONE
        self._opens(self.of.agent)

    def _passes(self, time: Span) -> None:
        self.runs, self.staged = self.runs.plus(time), self.staged.plus(time)
        for shield in self.shields.values():
            shield.passes(time)

    def _opens(self, agent: str) -> None:
        """Begin a step with its agent's own model, and calls of its own."""
        self.agent, self.model = agent, self.of.own[agent]
        self.final = False
        self._begins()

    def _begins(self) -> None:
        """Begin another call of the step."""
        self.tried.clear()
        self.first = True
        self.tokens.record_issue()
