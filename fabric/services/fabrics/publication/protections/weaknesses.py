"""Notes protections that a fabric switches off, or weakens so far that they stop nothing (S0 "Requirements at
publication").

Its author may mean it. The rules apply to single stages too (``policy.stages``). Retry settings that are laxer than
required need a reason (docs/specification/retries.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fabric.core.budgets.grants import PROVIDER_BUCKET
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import SignalName
from fabric.core.spec.policies.limits import Progress, Retry
from fabric.core.spec.policies.loop_limits import LOOP_NAMES, Detector, LoopDetector
from fabric.core.spec.policies.stages import HERE, ONLY_IN, StagePolicy
from fabric.core.state.judges import is_scored
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier
from fabric.services.fabrics.publication.protections import limits as publication_limits
from fabric.services.fabrics.yaml.document import FabricProblem

NUMBERS: Mapping[str, Detector] = {
    "identical_threshold": "identical_calls",
    "consecutive_threshold": "same_call_in_a_row",
    "answer_threshold": "same_answer",
    "stale_threshold": "nothing_new_in_a_row",
    "long_threshold": "near_identical_calls_in_the_long_run",
    "failing_threshold": "nothing_but_errors",
    "said_threshold": "same_words_before_calls",
}
"""The number at which a detector trips, in turns or calls of one agent."""
SHORT_BRIEF_CHARS = 200
"""A brief of more characters is a long one."""

Note = tuple[str, str]


def find_weaknesses(spec: FabricSpec) -> Iterator[Note]:
    """Yield ``(path, sentence)`` for each protection that is off, or that no run can reach."""
    for rule in RULES:
        yield from rule(spec)


def _detectors(spec: FabricSpec) -> Iterator[Note]:
    rule, path = spec.policy.loop_detector, "policy.loop_detector"
    if rule.preset is not None:
        return
    off = [one.finds for name, one in LOOP_NAMES.items() if name not in rule.detectors]
    if off:
        yield f"{path}.detectors", f"leaves out {', '.join(off)}: nothing stops an agent that does that"
    turns = spec.policy.limits.turns
    for field, detector in NUMBERS.items():
        if detector in rule.detectors and getattr(rule, field) > max(turns, _default(field)):
            yield (
                f"{path}.{field}",
                f"is above the {turns} turns that an agent has, so {LOOP_NAMES[detector].finds} never stops it",
            )


def _default(field: str) -> int:
    default: int = LoopDetector.model_fields[field].default
    return default


def _progress(spec: FabricSpec) -> Iterator[Note]:
    turns, limit = spec.policy.progress.agent_turns, spec.policy.limits.turns
    if turns > max(limit, Progress().agent_turns):
        yield "policy.progress.agent_turns", f"is above the {limit} turns that an agent has, so no standstill stops it"


def _deadlocks(spec: FabricSpec) -> Iterator[Note]:
    rule, path = spec.policy.deadlock_monitor, "policy.deadlock_monitor"
    if rule.similarity == 1.0:
        yield f"{path}.similarity", "is 1: only briefs of exactly the same words count as one"
    if rule.brief_chars > SHORT_BRIEF_CHARS:
        yield f"{path}.brief_chars", f"is {rule.brief_chars}: shorter briefs may be given out again and again"


def _velocity(spec: FabricSpec) -> Iterator[Note]:
    rule, path = spec.policy.cost_velocity, "policy.cost_velocity"
    if not rule.factor:
        yield f"{path}.factor", "is 0: the rate of spending is not watched"
    elif not rule.times_usual and rule.usd_micros_per_minute is None:
        yield f"{path}.times_usual", "is 0, and no rate is given: the spending rate of a run is not watched"


def _confidence(spec: FabricSpec) -> Iterator[Note]:
    if not spec.policy.tau and spec.topology.critic:
        yield "policy.tau", "is 0: a result passes however unsure its critic is"


def _repeated_calls(spec: FabricSpec) -> Iterator[Note]:
    """Yield a warning for breakers on repeated calls: the loop detector stops an agent earlier."""
    rule = spec.policy.loop_detector
    if rule.preset is not None:
        return
    for n, breaker in enumerate(spec.policy.breakers):
        for m, signal in enumerate(breaker.signals):
            if SignalName.IDENTICAL_CALL not in signal.names:
                continue
            path = f"policy.breakers.{n}.signals.{m}.threshold"
            if "same_call_in_a_row" in rule.detectors and signal.threshold >= rule.consecutive_threshold:
                yield (
                    path,
                    f"is never reached: the loop detector stops an agent at {rule.consecutive_threshold} equal calls in a row",
                )
            elif "identical_calls" in rule.detectors and signal.threshold >= rule.identical_threshold:
                yield (
                    path,
                    f"counts only calls whose results differ: at {rule.identical_threshold} equal calls with one result the loop detector comes first",
                )


RULES: tuple[Callable[[FabricSpec], Iterator[Note]], ...] = (
    _detectors,
    _progress,
    _deadlocks,
    _velocity,
    _confidence,
    _repeated_calls,
)
"""Rules, each about one protection."""
OF_STAGES = (_detectors, _progress, _deadlocks)
"""Rules that are also checked for each stage with values of its own."""

Told = Iterable[tuple[str, str]]
"""Paths and sentences."""


def find_idle_limits(spec: FabricSpec, where: object) -> Iterator[FabricProblem]:
    """Yield the windows and deadlines that cannot take effect in one stage."""

    def judge_stages(seen: FabricSpec) -> Told:
        return [(one.path, one.sentence) for rule in publication_limits.OF_STAGES for one in rule(seen, where)]

    for path, sentence in _judge_each_stage(spec, judge_stages):
        yield FabricProblem(path, sentence)


def notes(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield the protections that are off or unreachable in one stage."""
    yield from _judge_each_stage(spec, lambda seen: [one for rule in OF_STAGES for one in rule(seen)])
    for stage, own in spec.policy.stages.items():
        if own.tau is not None and not is_scored(spec, stage):
            yield f"{HERE}.{stage}.tau", "is never used: no critic scores this stage"
        elif own.tau == 0:
            yield f"{HERE}.{stage}.tau", "is 0: what this stage makes passes however unsure its judge is"


def _judge_each_stage(spec: FabricSpec, told: Callable[[FabricSpec], Told]) -> Iterator[tuple[str, str]]:
    """Yield the problems of a stage with values of its own, without those of the whole fabric."""
    if not spec.policy.stages:
        return
    whole = set(told(_replace_policy(spec, spec.policy.model_copy(update={"stages": {}}))))
    for stage, own in spec.policy.stages.items():
        for path, sentence in told(_replace_policy(spec, spec.policy.of_stage(stage))):
            inner = path.removeprefix("policy.")
            if (path, sentence) not in whole and _is_meant(stage, inner):
                yield _nearest(stage, own, inner), sentence


def _replace_policy(spec: FabricSpec, policy: object) -> FabricSpec:
    return spec.model_copy(update={"policy": policy})


def _is_meant(stage: Stage, path: str) -> bool:
    return not any(
        (path == only or path.startswith(f"{only}.")) and stage not in where for only, (where, _) in ONLY_IN.items()
    )


def _nearest(stage: Stage, own: StagePolicy, path: str) -> str:
    """Return the path of the stage's own field, or of the stage where it has none. The fabric's value does not fit the
    stage's other values.
    """
    group, _, name = path.partition(".")
    given = own.groups[group].given_fields if group in own.groups else {}
    if group == "deadlines":
        tier, _, name = name.partition(".")
        given = {n: v for t, one in own.deadlines.items() if t == tier for n, v in one.given_fields.items()}
    return f"{HERE}.{stage}.{path}" if name in given or path == "tau" else f"{HERE}.{stage}"


APART = "its retries take no token of the buckets that all runs of the fabric and of the provider share"
UNGUARDED = "no circuit breaker protects a provider that is away: every run calls it again"
EARN_MAX = 0.2
"""S0 "Retry Budget With Backoff": 10 to 20 % of the load."""
LAYERED = "it retries a call 3 times and its node besides in high-stakes, where at most 2 retries are allowed"


def problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield a path and a sentence for each problem that keeps a fabric from being published."""
    retry, layers = spec.policy.retry, spec.policy.retry_layers
    lax = list(_lax_retries(retry))
    for field, what in lax if not retry.deviation.strip() else ():
        yield f"policy.retry.{field}", f"{what}; leave `{field}` out, or give `retry` a `deviation` with the reason"
    if retry.deviation and not lax:
        yield (
            "policy.retry.deviation",
            "excuses nothing, since its retries are shared and as few as by default; leave it out",
        )
    if retry.shared and retry.bucket > PROVIDER_BUCKET:
        sentence = f"is {retry.bucket}, but each retry takes a token of its provider's bucket too, which holds {PROVIDER_BUCKET}"
        yield "policy.retry.bucket", f"{sentence}; give {PROVIDER_BUCKET} or less"
    if _lax_layers(spec) and not layers.deviation.strip():
        yield "policy.retry_layers.preset", f"{LAYERED}; give `retry_layers` a `deviation` with the reason"
    elif layers.deviation and not _lax_layers(spec):
        yield (
            "policy.retry_layers.deviation",
            "excuses nothing, since no run of it retries nodes in high-stakes; leave it out",
        )


def laxer(spec: FabricSpec) -> Iterator[tuple[str, str, str]]:
    """Yield path, sentence and reason of each retry setting that is laxer than required."""
    retry, layers = spec.policy.retry, spec.policy.retry_layers
    for field, what in _lax_retries(retry):
        yield f"policy.retry.{field}", what, retry.deviation.strip()
    if not spec.policy.breakers:
        yield "policy.breakers", UNGUARDED, spec.policy.breakers_deviation.strip()
    if _lax_layers(spec):
        yield "policy.retry_layers.preset", LAYERED, layers.deviation.strip()


def find_unguarded(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield the problems of a fabric without a circuit breaker, or with a needless reason for having none."""
    policy = spec.policy
    if not policy.breakers and not policy.breakers_deviation.strip():
        yield (
            "policy.breakers",
            f"{UNGUARDED}; leave `breakers` out, or give `policy` a `breakers_deviation` with the reason",
        )
    elif policy.breakers and policy.breakers_deviation:
        yield "policy.breakers_deviation", "excuses nothing, since the fabric has circuit breakers; leave it out"


def _lax_retries(retry: Retry) -> Iterator[tuple[str, str]]:
    if not retry.shared:
        yield "shared", APART
    if retry.earn > EARN_MAX:
        share = f"{retry.earn:.0%} of the first attempts, where at most {EARN_MAX:.0%} are allowed"
        yield "earn", f"its retries may be {share}"


def _lax_layers(spec: FabricSpec) -> bool:
    return spec.policy.retry_layers.layered and Tier.HIGH_STAKES in spec.tiers.allowed
