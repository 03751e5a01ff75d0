"""Models: where they are asked and at what price, keys of endpoints, and test calls."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Path, Router
from pydantic import Field, SecretStr

from console.api.callers import actor_of
from console.api.problems import Problem
from console.api.schemas import Given, Instant, Told, instant
from console.throttle import MODEL_TESTS, count
from fabric.model_ports import try_out
from fabric.services.model_list import KeyTold, Model, TestTold, models_list
from fabric.services.model_tests import model_test
from fabric.services.provider_keys import CHARS_MAX, URL_CHARS_MAX, key_delete, key_set

router = Router(tags=["models"])
PROVIDER = {"description": "The protocol.", "examples": ["openai"]}
HOST = {
    "description": "Scheme, host and port that it goes to, and nowhere else.",
    "examples": ["https://api.openai.com:443"],
}


class KeyOut(Told):
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
    tested_ok: bool = Field(description="Whether that was answered.", examples=[True])
    tested_said: str = Field(description="What came of it.", examples=["It answered within 0.6 s."])


class PriceOut(Told):
    """What a model costs, in micro-dollars for a million tokens."""

    input_usd_micros_per_mtok: int | None = Field(
        description="Null: unpriced, which is not 0: no run calls it.", examples=[150_000]
    )
    output_usd_micros_per_mtok: int | None = Field(description="The same for output.", examples=[600_000])
    source: Literal["fabric", "list", "none"] = Field(
        description="Who says so: a fabric's own `price`, or the list that ships with this version."
    )
    as_of: Instant | None = Field(description="When it was written, or the list last verified; null: there is none.")
    old: bool = Field(description="Whether that is more than 90 days ago.", examples=[False])


class UseOut(Told):
    """A published fabric that names a model."""

    fabric: str = Field(description="Its name.", examples=["contract-check"])
    revision: int = Field(description="The revision that a new run pins.", examples=[3])
    name: str = Field(description="What the fabric calls the model.", examples=["main"])
    agents: list[str] = Field(
        description="Agents that use it; empty: it stands in for another.", examples=[["planner"]]
    )


class ProbeOut(Told):
    """One of a test call's requests."""

    probe: Literal["word", "schema", "tool"] = Field(description="What was looked for.")
    seen: Literal["yes", "no", "unknown"] = Field(description="unknown: it was not answered.")
    said: str = Field(description="In a sentence.", examples=["It called the tool that it was offered."])
    latency_ms: int = Field(description="How long it took.", examples=[640])
    input_tokens: int = Field(description="Tokens in.", examples=[24])
    output_tokens: int = Field(description="Tokens out.", examples=[6])


class TestOut(Told):
    """The last test call of a model."""

    started_at: Instant = Field(description="When it began.")
    started_by: str = Field(description="By whom.", examples=["owner"])
    running: bool = Field(description="Whether it is under way.", examples=[False])
    ok: bool | None = Field(
        description="Whether the model answered; null: it is under way, or broke off.", examples=[True]
    )
    said: str = Field(description="What came of it, or went wrong.", examples=["It answered within 0.6 s."])
    cause: str = Field(description="What kind of failure it was; empty: none.", examples=[""])
    reserved_usd_micros: int | None = Field(description="What it could cost at most; null: unpriced.", examples=[1024])
    cost_usd_micros: int | None = Field(description="What it cost; null: not known.", examples=[96])
    probes: list[ProbeOut] = Field(description="Its requests.")


class ModelOut(Told):
    """One way in which a model is asked."""

    id: str = Field(description="The same for the same declaration.", examples=["3d2de876f893f5985f2b504e57044c1a"])
    provider: str = Field(**PROVIDER)  # type: ignore[call-overload]
    model: str = Field(description="The provider's model id; empty: there is none.", examples=["gpt-4o-mini"])
    url: str = Field(description="Where it is asked; empty: nowhere by HTTP.", examples=["https://api.openai.com/v1"])
    host: str = Field(description="Scheme, host and port of that.", examples=["https://api.openai.com:443"])
    key_from: str = Field(
        description="What its calls go out with: `stored`, the name of a variable of the environment, or empty: no key.",
        examples=["stored"],
    )
    price: PriceOut = Field(description="What it costs.")
    capabilities: list[str] = Field(
        description="What the fabric declares.", examples=[["structured_output", "tool_use"]]
    )
    context_tokens: int | None = Field(description="What fits in; null: not known.", examples=[128_000])
    uses: list[UseOut] = Field(description="Fabrics that name it; empty: only the environment does.")
    test_usd_micros_max: int | None = Field(
        description="What a test call costs at most; null: unpriced.", examples=[1024]
    )
    test: TestOut | None = Field(description="The last test call; null: there was none.")


class ModelsOut(Told):
    """Models and stored keys."""

    models: list[ModelOut] = Field(description="By endpoint, the operator's first.")
    keys: list[KeyOut] = Field(description="Every stored key, those among them that no model goes out with.")
    list_version: str = Field(description="Of the price list.", examples=["0.2.3"])
    list_as_of: Instant = Field(description="When any of it was last verified.")


class PlaceIn(Given):
    """Which endpoint."""

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


class TestIn(Given):
    """What whoever asks is ready to pay."""

    at_most_usd_micros: int | None = Field(
        None, ge=0, le=2**53, description="409 where it may cost more by now; null: whatever it costs.", examples=[1024]
    )


class DeletedOut(Told):
    """A key that is there no more."""

    provider: str = Field(**PROVIDER)  # type: ignore[call-overload]
    host: str = Field(**HOST)  # type: ignore[call-overload]
    last_four: str = Field(description="Its last characters.", examples=["x7Qz"])


@router.get("/models", response=ModelsOut, url_name="api-models", operation_id="listModels")
def list_models(request: HttpRequest) -> ModelsOut:
    """List models. What the published fabrics and the environment name, with prices, the last test of each, and the stored keys without the keys."""
    found = models_list(actor_of(request))
    keys = [one.key for one in found.endpoints if one.key]
    return ModelsOut(
        models=[_model(model, one.key is not None, one.key_from) for one in found.endpoints for model in one.models],
        keys=[_key(key) for key in keys],
        list_version=found.list_version,
        list_as_of=instant(found.list_as_of),
    )


@router.post("/models/keys", response=KeyOut, url_name="api-model-key", operation_id="storeModelKey")
def store_model_key(request: HttpRequest, body: KeyIn) -> KeyOut:
    """Store a key of an endpoint. It takes the place of the one that may be there. Workers use it within seconds. For owners."""
    stored = key_set(actor=actor_of(request), provider=body.provider, host=body.host, key=body.key.get_secret_value())
    return _key(stored)


@router.post("/models/keys/delete", response=DeletedOut, url_name="api-model-key-delete", operation_id="deleteModelKey")
def delete_model_key(request: HttpRequest, body: PlaceIn) -> DeletedOut:
    """Delete a stored key. Calls go out with the environment's, where it has one for that host, or without. For owners."""
    deleted = key_delete(actor=actor_of(request), provider=body.provider, host=body.host)
    return DeletedOut(provider=deleted.provider, host=deleted.host, last_four=deleted.last_four)


@router.post("/models/{model_id}/test", response=ModelOut, url_name="api-model-test", operation_id="testModel")
def test_model(
    request: HttpRequest,
    model_id: Annotated[str, Path(description="Its id, as listed.", example="3d2de876f893f5985f2b504e57044c1a")],
    body: TestIn,
) -> ModelOut:
    """Make a test call. Up to three small requests to the endpoint, 15 s at most; the answer says what came of them. For owners and editors."""
    actor = actor_of(request)
    if wait := count(MODEL_TESTS, f"{actor.workspace_id}:{actor.name}"):
        message = f"more than {MODEL_TESTS.most} test calls were made within a minute: go on in {wait} s"
        raise Problem(429, message, headers={"Retry-After": str(wait)})
    model = model_test(actor=actor, model_id=model_id, try_out=try_out, at_most=body.at_most_usd_micros)
    endpoint = next(one for one in models_list(actor).endpoints if (one.provider, one.host) == (model.spec.provider, model.host))  # fmt: skip
    return _model(model, endpoint.key is not None, endpoint.key_from)


def _model(one: Model, stored: bool, key_from: str) -> ModelOut:
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
