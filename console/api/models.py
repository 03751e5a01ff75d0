"""Operations on models: endpoints and prices, stored keys, test calls, and circuit breakers.

Circuit breakers are listed, opened and reset.
"""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Body, Path, Router
from pydantic import Field, SecretStr

from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from console.site.errors.problems import Problem
from console.site.requests.throttle import MODEL_TESTS, count_request
from fabric.composition.models import try_out
from fabric.selectors.models.breakers import BreakerView, list_breaker_views
from fabric.services.models.breakers import breaker_force_open, breaker_reset
from fabric.services.models.catalogue import DeclaredModel, KeyTold, TestTold, models_list
from fabric.services.models.keys import CHARS_MAX, URL_CHARS_MAX, key_delete, key_set
from fabric.services.models.test_calls import model_test
from fabric.services.runs.start import REASON_CHARS_MAX

router = Router(tags=["models"])
PROVIDER = {"description": "The protocol.", "examples": ["openai"]}
HOST = {
    "description": "Scheme, host and port that it goes to, and nowhere else.",
    "examples": ["https://api.openai.com:443"],
}


class KeyOut(ResponseShape):
    """A stored key. The key itself is in no answer."""

    provider: str = Field(**PROVIDER)  # type: ignore[call-overload]
    host: str = Field(**HOST)  # type: ignore[call-overload]
    last_four: str = Field(description="Its last characters.", examples=["x7Qz"])
    added_at: Instant = Field(description="When it was stored.")
    added_by: str = Field(description="By whom.", examples=["owner"])
    used_at: Instant | None = Field(description="When it last went out, to within a minute; null: not yet.")
    opens: bool = Field(
        description="False: the key ring lacks what it was sealed under; it needs to be set again.",
        examples=[True],
    )
    tested_at: Instant | None = Field(description="When a test call last went out with it; null: never.")
    tested_ok: bool = Field(description="True if the endpoint answered.", examples=[True])
    tested_said: str = Field(description="Result of the check.", examples=["It answered within 0.6 s."])


class PriceOut(ResponseShape):
    """Price of a model, in micro-dollars for a million tokens."""

    input_usd_micros_per_mtok: int | None = Field(
        description="Null: unpriced, which is not 0: no run calls it.", examples=[150_000]
    )
    output_usd_micros_per_mtok: int | None = Field(description="The same for output.", examples=[600_000])
    source: Literal["fabric", "list", "none"] = Field(
        description="Source of the price: a fabric's own `price`, or the list that ships with this version."
    )
    as_of: Instant | None = Field(description="When it was written, or the list last verified; null: there is none.")
    old: bool = Field(description="True if the price is more than 90 days old.", examples=[False])


class UseOut(ResponseShape):
    """A published fabric that names a model."""

    fabric: str = Field(description="Its name.", examples=["contract-check"])
    revision: int = Field(description="The revision that a new run pins.", examples=[3])
    name: str = Field(description="Name of the model in the fabric.", examples=["main"])
    agents: list[str] = Field(description="Agents that use it; empty: it is only a fallback.", examples=[["planner"]])


class DraftUseOut(ResponseShape):
    """A draft that declares a model."""

    fabric: str = Field(description="Its fabric.", examples=["contract-check"])
    author: str = Field(description="Its author.", examples=["ana"])


class ProbeOut(ResponseShape):
    """One of a test call's requests."""

    probe: Literal["word", "schema", "tool"] = Field(description="Capability that was checked.")
    seen: Literal["yes", "no", "unknown"] = Field(description="unknown: it was not answered.")
    said: str = Field(description="In a sentence.", examples=["It called the tool that it was offered."])
    latency_ms: int = Field(description="How long it took.", examples=[640])
    input_tokens: int = Field(description="Tokens in.", examples=[24])
    output_tokens: int = Field(description="Tokens out.", examples=[6])


class TestOut(ResponseShape):
    """The last test call of a model."""

    started_at: Instant = Field(description="When it began.")
    started_by: str = Field(description="By whom.", examples=["owner"])
    running: bool = Field(description="True while the test runs.", examples=[False])
    ok: bool | None = Field(
        description="True if the model answered; null: the test still runs, or broke off.", examples=[True]
    )
    said: str = Field(description="Result of the test, or its error.", examples=["It answered within 0.6 s."])
    cause: str = Field(description="Kind of the failure; empty: none.", examples=[""])
    reserved_usd_micros: int | None = Field(description="Largest possible cost; null: unpriced.", examples=[1024])
    cost_usd_micros: int | None = Field(description="Real cost; null: unknown.", examples=[96])
    probes: list[ProbeOut] = Field(description="Its requests.")


class ModelOut(ResponseShape):
    """A model at one endpoint."""

    id: str = Field(description="The same for the same declaration.", examples=["3d2de876f893f5985f2b504e57044c1a"])
    provider: str = Field(**PROVIDER)  # type: ignore[call-overload]
    model: str = Field(description="The provider's model id; empty: there is none.", examples=["gpt-4o-mini"])
    url: str = Field(description="Address of the endpoint; empty: no HTTP.", examples=["https://api.openai.com/v1"])
    host: str = Field(description="Scheme, host and port of that.", examples=["https://api.openai.com:443"])
    key_from: str = Field(
        description="Source of the key: `stored`, the name of an environment variable, or empty: no key.",
        examples=["stored"],
    )
    price: PriceOut = Field(description="Price of the model.")
    capabilities: list[str] = Field(
        description="Capabilities that the fabric declares.", examples=[["structured_output", "tool_use"]]
    )
    context_tokens: int | None = Field(description="Size of the context in tokens; null: unknown.", examples=[128_000])
    uses: list[UseOut] = Field(description="Fabrics that name it; empty: only the environment does.")
    drafts: list[DraftUseOut] = Field(description="Drafts that declare it so.")
    test_usd_micros_max: int | None = Field(
        description="Largest possible cost of a test call; null: unpriced.", examples=[1024]
    )
    test: TestOut | None = Field(description="The last test call; null: there was none.")


class ModelsOut(ResponseShape):
    """Models and stored keys."""

    models: list[ModelOut] = Field(description="By endpoint, the operator's first.")
    keys: list[KeyOut] = Field(description="Every stored key, those among them that no model goes out with.")
    list_version: str = Field(description="Version of the price list.", examples=["0.2.3"])
    list_as_of: Instant = Field(description="When any of it was last verified.")


class PlaceIn(RequestShape):
    """An endpoint."""

    provider: str = Field(max_length=40, **PROVIDER)  # type: ignore[call-overload]
    host: str = Field(
        max_length=URL_CHARS_MAX, description="The endpoint's URL.", examples=["https://api.openai.com/v1"]
    )


class KeyIn(PlaceIn):
    """A key for an endpoint."""

    key: SecretStr = Field(
        max_length=4 * CHARS_MAX,
        description="The key. It is stored encrypted and given back by nothing.",
        examples=["sk-an-example-and-no-key"],
    )


class TestIn(RequestShape):
    """Largest cost that the caller accepts."""

    at_most_usd_micros: int | None = Field(
        None,
        ge=0,
        le=2**53,
        description="Largest accepted cost; 409 if the test may cost more. Null: any cost.",
        examples=[1024],
    )


class DeletedOut(ResponseShape):
    """A deleted key."""

    provider: str = Field(**PROVIDER)  # type: ignore[call-overload]
    host: str = Field(**HOST)  # type: ignore[call-overload]
    last_four: str = Field(description="Its last characters.", examples=["x7Qz"])


@router.get("/models", response=ModelsOut, url_name="api-models", operation_id="listModels")
def list_models(request: HttpRequest) -> ModelsOut:
    """List models. Those of the published fabrics and the environment, with prices, last tests, and stored keys
    without the keys themselves.
    """
    found = models_list(find_actor(request))
    keys = [one.key for one in found.endpoints if one.key]
    return ModelsOut(
        models=[_model(model, one.key is not None, one.key_from) for one in found.endpoints for model in one.models],
        keys=[_key(key) for key in keys],
        list_version=found.list_version,
        list_as_of=instant(found.list_as_of),
    )


@router.post("/models/keys", response=KeyOut, url_name="api-model-key", operation_id="storeModelKey")
def store_model_key(request: HttpRequest, body: KeyIn) -> KeyOut:
    """Store a key of an endpoint. It replaces an existing one. Workers use it within seconds. For owners."""
    stored = key_set(actor=find_actor(request), provider=body.provider, host=body.host, key=body.key.get_secret_value())
    return _key(stored)


@router.post("/models/keys/delete", response=DeletedOut, url_name="api-model-key-delete", operation_id="deleteModelKey")
def delete_model_key(request: HttpRequest, body: PlaceIn) -> DeletedOut:
    """Delete a stored key. Calls then use the environment's key for that host, or none. For owners."""
    deleted = key_delete(actor=find_actor(request), provider=body.provider, host=body.host)
    return DeletedOut(provider=deleted.provider, host=deleted.host, last_four=deleted.last_four)


@router.post("/models/{model_id}/test", response=ModelOut, url_name="api-model-test", operation_id="testModel")
def test_model(
    request: HttpRequest,
    model_id: Annotated[str, Path(description="Its id, as listed.", example="3d2de876f893f5985f2b504e57044c1a")],
    body: TestIn,
) -> ModelOut:
    """Make a test call. Up to three small requests to the endpoint, 15 s at most; the answer has their results. For
    owners and editors.
    """
    actor = find_actor(request)
    if wait := count_request(MODEL_TESTS, f"{actor.workspace_id}:{actor.name}"):
        message = f"more than {MODEL_TESTS.most} test calls within a minute: try again in {wait} s"
        raise Problem(429, message, headers={"Retry-After": str(wait)})
    model = model_test(actor=actor, model_id=model_id, try_out=try_out, at_most=body.at_most_usd_micros)
    endpoint = next(one for one in models_list(actor).endpoints if (one.provider, one.host) == (model.spec.provider, model.host))  # fmt: skip
    return _model(model, endpoint.key is not None, endpoint.key_from)


def _model(one: DeclaredModel, stored: bool, key_from: str) -> ModelOut:
    price = one.price.price
    return ModelOut(
        id=one.id,
        provider=one.spec.provider,
        model=one.model,
        url=one.url,
        host=one.host,
        key_from="stored" if stored else key_from,
        price=PriceOut(
            input_usd_micros_per_mtok=price.input_usd_micros_per_mtok if price else None,
            output_usd_micros_per_mtok=price.output_usd_micros_per_mtok if price else None,
            source=one.price.source,
            as_of=instant(one.price.as_of),
            old=one.price.old,
        ),
        capabilities=sorted(one.spec.capable),
        context_tokens=one.context_tokens,
        uses=[
            UseOut(fabric=use.fabric, revision=use.number, name=use.name, agents=list(use.agents)) for use in one.uses
        ],
        drafts=[DraftUseOut(fabric=use.fabric, author=use.author) for use in one.drafts],
        test_usd_micros_max=one.worst_usd_micros,
        test=None if one.test is None else _test(one.test),
    )


def _test(one: TestTold) -> TestOut:
    trial = one.trial
    return TestOut(
        started_at=instant(one.started_at),
        started_by=one.started_by,
        running=one.running,
        ok=trial.ok if trial else None,
        said=trial.said if trial else "",
        cause=trial.cause if trial else "",
        reserved_usd_micros=one.reserved_usd_micros,
        cost_usd_micros=one.cost_usd_micros,
        probes=[
            ProbeOut(
                probe=probe.probe,
                seen=probe.seen,
                said=probe.said,
                latency_ms=probe.latency_ms,
                input_tokens=probe.input_tokens,
                output_tokens=probe.output_tokens,
            )
            for probe in (trial.probes if trial else ())
        ],
    )


def _key(one: KeyTold) -> KeyOut:
    return KeyOut(
        provider=one.provider,
        host=one.host,
        last_four=one.last_four,
        added_at=instant(one.added_at),
        added_by=one.added_by,
        used_at=instant(one.used_at),
        opens=one.opens,
        tested_at=instant(one.tested_at),
        tested_ok=one.tested_ok,
        tested_said=one.tested_said,
    )


breaker_router = Router(tags=["breakers"])
SCOPE = "Protected part: provider:NAME, agent:FABRIC_ID:NAME, tool:FABRIC_ID:NAME, stage:FABRIC_ID:STAGE or fabric:FABRIC_ID."
KIND = "Its policy's digest: a scope may have several breakers."
EXAMPLE_SCOPE, EXAMPLE_KIND = "provider:openai", "circuit_breaker:92e507dd97e0"
SCOPE_CHARS_MAX = 300
GENERATION_MAX = 2**63 - 1


class MoveIn(RequestShape):
    """Breaker to move, the version that the caller has seen, and the reason."""

    scope: str = Field(min_length=1, max_length=SCOPE_CHARS_MAX, description=SCOPE, examples=[EXAMPLE_SCOPE])
    kind: str = Field(min_length=1, max_length=SCOPE_CHARS_MAX, description=KIND, examples=[EXAMPLE_KIND])
    generation: int = Field(
        ge=0, le=GENERATION_MAX, description="As it was listed: one that changed meanwhile is left alone.", examples=[4]
    )
    reason: str = Field(
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Kept with the breaker and in the audit stream.",
        examples=["The provider is down for maintenance."],
    )


class SignalOut(ResponseShape):
    """A signal that opens a breaker, and its present count."""

    names: list[str] = Field(description="Failures that are counted together.", examples=[["timeout", "server_error"]])
    mode: Literal["consecutive", "window", "rate", "cumulative"] = Field(
        description="consecutive: in a row; window: in window_s; rate: share of the calls in window_s; cumulative: since it closed."
    )
    threshold: float = Field(description="Opens at this count; a rate above this share.", examples=[5.0])
    window_s: float = Field(description="How far window and rate reach back, seconds.", examples=[60.0])
    count: int = Field(description="Counted now, by all workers; 0 of what is counted within one step.", examples=[2])
    calls: int = Field(description="For a rate: all calls in the window.", examples=[0])
    share: int = Field(description="Whole percent of the way to the threshold.", examples=[40])


class BreakerChangeOut(ResponseShape):
    """One change of a breaker."""

    generation: int = Field(description="That it had from then on.", examples=[4])
    state: str = Field(description="Its own from then on.", examples=["open"])
    signal: str = Field(description="Cause of the opening; forced: by a person.", examples=["timeout"])
    by: str = Field(description="Person who moved it by hand; empty: none.", examples=[""])
    reason: str = Field(description="Reason of that person; empty: moved by no person.", examples=[""])
    at: Instant = Field(description="When.")


class BreakerOut(ResponseShape):
    """A circuit breaker."""

    scope: str = Field(description=SCOPE, examples=[EXAMPLE_SCOPE])
    kind: str = Field(description=KIND, examples=[EXAMPLE_KIND])
    fabrics: list[str] = Field(description="Names of the fabrics whose calls meet it.", examples=[["research-desk"]])
    published: bool = Field(description="False: only runs of an earlier revision meet it.")
    state: str = Field(description="closed, open, half_open, or stopped: until a person resets it.", examples=["open"])
    held: bool = Field(description="True if only a person can let calls pass again.")
    signal: str = Field(description="Cause of the opening; forced: by a person; empty: closed.", examples=["timeout"])
    by: str = Field(description="Person who last moved it by hand; empty: none.", examples=[""])
    reason: str = Field(description="Why.", examples=[""])
    generation: int = Field(description="Grows with each change; open and reset name it.", examples=[4])
    changed_at: Instant | None = Field(description="When it changed last; null: never.")
    cooldown_s: float = Field(description="How long it is open before a probe, seconds.", examples=[60.0])
    probe_at: Instant | None = Field(
        description="When a probe may go out, by its cooldown or its endpoint's Retry-After, whichever is later; null: neither runs."
    )
    probe_held_by: str = Field(
        description="Which attempt is the probe, run/command#attempt, the first of several; empty: none.", examples=[""]
    )
    probes: list[str] = Field(description="All attempts that are out as probes, run/command#attempt.", examples=[[]])
    half_open_max: int = Field(description="How many probes may be out at once.", examples=[1])
    trips: int = Field(description="Openings in a row.", examples=[1])
    max_trips: int = Field(description="It stops at so many; 0: never.", examples=[3])
    trips_24h: int = Field(description="Automatic openings in the last 24 hours.", examples=[1])
    signals: list[SignalOut] = Field(description="Conditions that open it; the first one that is met.")
    changes: list[BreakerChangeOut] = Field(description="The last ones, the newest first.")


class BreakersOut(ResponseShape):
    """The circuit breakers of the workspace."""

    breakers: list[BreakerOut] = Field(description="All of them, those that stop calls first.")


@breaker_router.get("/breakers", response=BreakersOut, url_name="api-breakers", operation_id="listBreakers")
def list_breakers(request: HttpRequest) -> BreakersOut:
    """List circuit breakers. All breakers of this workspace's calls; a provider's breaker is shared by all fabrics
    that use it.
    """
    return BreakersOut(breakers=[_breaker_shape(one) for one in list_breaker_views(find_actor(request))])


@breaker_router.post("/breakers/open", response=BreakerOut, url_name="api-breakers-open", operation_id="openBreaker")
def open_breaker(request: HttpRequest, body: Annotated[MoveIn, Body()]) -> BreakerOut:
    """Open a breaker by hand. No call passes it until a person resets it, in every worker within a second. For the
    owner and operators.
    """
    return _breaker_shape(breaker_force_open(actor=find_actor(request), **body.model_dump()))


@breaker_router.post("/breakers/reset", response=BreakerOut, url_name="api-breakers-reset", operation_id="resetBreaker")
def reset_breaker(request: HttpRequest, body: Annotated[MoveIn, Body()]) -> BreakerOut:
    """Reset a breaker. Calls pass again, its trips are forgotten, its signals are counted anew. For the owner and
    operators.
    """
    return _breaker_shape(breaker_reset(actor=find_actor(request), **body.model_dump()))


def _breaker_shape(one: BreakerView) -> BreakerOut:
    standing = one.standing
    return BreakerOut(
        scope=one.scope,
        kind=one.kind,
        fabrics=list(one.fabrics),
        published=one.published,
        state=standing.state.value,
        held=standing.held,
        signal=standing.signal,
        by=standing.by,
        reason=standing.reason,
        generation=one.generation,
        changed_at=instant(one.changed_at or None),
        cooldown_s=one.breaker.cooldown_s,
        probe_at=instant(one.cools_at),
        probe_held_by=one.probes[0].holder if one.probes else "",
        probes=[probe.holder for probe in one.probes],
        half_open_max=one.breaker.half_open_max,
        trips=standing.trips,
        max_trips=one.breaker.max_trips,
        trips_24h=one.trips,
        signals=[
            SignalOut(
                names=[name.value for name in each.signal.names],
                mode=each.signal.mode,
                threshold=each.signal.threshold,
                window_s=each.signal.window_s,
                count=each.count,
                calls=each.calls,
                share=each.share,
            )
            for each in one.signals
        ],
        changes=[
            BreakerChangeOut(
                generation=each.generation,
                state=each.standing.state.value,
                signal=each.standing.signal,
                by=each.standing.by,
                reason=each.standing.reason,
                at=instant(each.at),
            )
            for each in one.changes
        ],
    )
