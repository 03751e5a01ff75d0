"""A fabric in the hands of the drills' own provider: its models are asked there and nowhere else, whatever they are called; everything else stays its own.

Prices stay, so that a run's meter counts as ever. Each drill's endpoints have names of their own, so that what it does to the state that runs share (circuit breakers,
retry tokens, a Retry-After) meets no other run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from fabric.core.breaker.policy import BreakerScope
from fabric.core.endpoints import endpoint_name
from fabric.core.spec import FabricSpec, ModelSpec
from fabric.core.spec_price import ModelPrice
from fabric.core.spec_topology import Tiers
from fabric.services import here
from fabric.services.publication_models import DRILL_PROVIDER
from simulator.drills.baseline import CONTENT

JSON = Any
PROVIDER = DRILL_PROVIDER
NAME_CHARS, MARK_CHARS = 40, 12
MICROS = 1_000_000


def in_the_drills_hands(spec: FabricSpec, drill_id: str, told: Mapping[str, JSON]) -> FabricSpec:
    """The fabric under the drill's name. ``told``: options of its models, beside those that make the scripted agents content; any tier may be asked for."""
    mark = drill_id[-MARK_CHARS:]
    endpoints = {name: f"{n}-{mark}.drill.invalid" for n, name in enumerate(sorted(map(endpoint_name, spec.models)))}
    models = tuple(_model(model, endpoints[endpoint_name(model)], told) for model in spec.models)
    renamed = {name: f"{PROVIDER}@{host}" for name, host in endpoints.items()}
    breakers = tuple(
        one.model_copy(update={"only": tuple(renamed[name] for name in one.only)})
        if one.scope is BreakerScope.PROVIDER
        else one
        for one in spec.policy.breakers
    )
    fields = {
        "name": f"{spec.name[:NAME_CHARS]}-drill-{mark}",
        "models": models,
        "tiers": spec.tiers.model_copy(update={"allowed": Tiers().allowed}),
        "policy": spec.policy.model_copy(update={"breakers": breakers}),
    }
    return FabricSpec.model_validate_json(spec.model_copy(update=fields).model_dump_json(by_alias=True))


def _model(model: ModelSpec, host: str, told: Mapping[str, JSON]) -> ModelSpec:
    own = {
        "provider": PROVIDER,
        "base_url": f"https://{host}",
        "price": _price(model),
        "options": {**CONTENT, **told, "instead_of": model.provider},
    }
    return model.model_copy(update=own)


def _price(model: ModelSpec) -> ModelPrice | None:
    """What it costs here, written out: no list has the drills' provider. None: nobody says, and its calls are refused as they would be."""
    if model.price is not None:
        return model.price
    found = here.installation().price(model)
    if found is None:
        return None
    kinds = {name.replace("_usd_micros_", "_usd_"): micros for name, micros in asdict(found).items()}
    return ModelPrice(
        **{name: None if micros is None else format(Decimal(micros) / MICROS, "f") for name, micros in kinds.items()}
    )
