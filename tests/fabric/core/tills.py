"""A process's share of budgets and retry tokens, scripted: what is there, and what is given or refused when it is asked for.

Where nothing is scripted of them, retry tokens come from buckets as the rule has them (``simulator/stores/memory/guards.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.core.budgets.grants import Refusal, TokenGiven, TokenWant, Want
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.events.parts import BucketLevel
from fabric.core.mechanisms import retry_budget
from fabric.core.mechanisms.retry_budget import UNITS
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.command_ids import is_errand
from fabric.runtime.happenings import Denied, Granted
from fabric.runtime.ports.journal import Batch
from fabric.runtime.ports.spending import TokenAsk
from simulator.stores.memory.guards import MemoryGuards

T_ASKED = 1_800_000_000_000_042


@dataclass
class Till:
    """``caps``: micro-dollars that each scope gives, one grant a want. ``tokens``: how many retries it gives; None: as many as the
    buckets have.
    """

    caps: dict[str, int] = field(default_factory=dict)
    tokens: int | None = None
    silent: bool = False
    """No person answers."""
    after_us: int = 0
    asked: list[Want | TokenWant] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)
    """By grant: ``<scope>#<n>``."""
    spent: dict[str, int] = field(default_factory=dict)
    """By scope: reserved, or what that came to."""
    settled: dict[tuple[str, int], tuple[int | None, str]] = field(default_factory=dict)
    now_us: int = T_ASKED
    """What the buckets' clock says."""
    _reserved: dict[tuple[str, int], list[tuple[str, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._buckets = MemoryGuards(self)

    def now(self) -> int:
        return self.now_us

    def performs(self, spec: FabricSpec, command: CallModel | CallTool) -> None:
        """A call went out: a first attempt earns."""
        policy = spec.policy.retry
        if command.attempt == 1 and policy.shared and not is_errand(command.command_id):
            model = command.model if isinstance(command, CallModel) else ""
            sizes = retry_budget.buckets(policy, "fabric-1", spec, model)
            earns = round(policy.earn * UNITS)
            self._buckets.earn([TokenAsk(scope, size * UNITS, earns) for scope, size in sizes])

    def chunks(self, scope: str) -> list[tuple[str, int]]:
        return [(grant, left) for grant, left in self.left.items() if grant.startswith(f"{scope}#")]

    def answer(self, want: Want | TokenWant) -> Granted | Denied | None:
        self.asked.append(want)
        if self.silent:
            return None
        if isinstance(want, TokenWant):
            return self._token(want)
        granted = sum(left for _, left in self.chunks(want.scope))
        spent, cap = self.spent.get(want.scope, 0), self.caps[want.scope]
        if spent + granted + want.usd_micros > cap:
            return Denied(want, Refusal(want.scope, cap, spent, granted, want.scope.startswith("fabric:"), T_ASKED))
        self.left[f"{want.scope}#{len(self.left)}"] = want.usd_micros
        return Granted(want)

    def _token(self, want: TokenWant) -> Granted | Denied:
        scope, size = want.sizes[0]
        if self.tokens is not None:
            self.tokens -= 1
            return Granted(want) if self.tokens >= 0 else Denied(want, Refusal(scope, size, 10, 0, False, T_ASKED))
        asks = [TokenAsk(scope, size * UNITS) for scope, size in want.sizes]
        left = self._buckets.retry(asks, first_in_stage=want.first_in_stage)
        if not left.given:
            scope, size = min(want.sizes, key=lambda one: left.levels[one[0]])
            return Denied(want, Refusal(scope, size, size - left.levels[scope] // UNITS, 0, False, self.now_us))
        levels = tuple(BucketLevel(bucket=scope, level=left.levels[scope]) for scope, _ in want.sizes)
        return Granted(want, TokenGiven(levels, self.now_us))

    def written(self, batch: Batch) -> None:
        """A batch is spent when it is handed out, and settled when it has committed: here both at once."""
        for one in batch.reserved:
            scope = one.grant_id.partition("#")[0]
            self.left[one.grant_id] -= one.usd_micros
            assert self.left[one.grant_id] >= 0, "more was reserved from a grant than it has"
            self.spent[scope] = self.spent.get(scope, 0) + one.usd_micros
            assert self.spent[scope] <= self.caps[scope], "more was spent than the cap"
            self._reserved.setdefault((one.command_id, one.attempt), []).append((scope, one.usd_micros))
        for done in batch.settled:
            key = done.command_id, done.attempt
            if key in self.settled:
                continue  # A reservation is settled once.
            self.settled[key] = done.usd_micros, done.reason.value
            for scope, worst in self._reserved[key]:
                self.spent[scope] -= worst - (worst if done.usd_micros is None else done.usd_micros)
