"""Publication rules for models: the least price, a cap, an allowed endpoint, and options that may be sent.

A price is known, and is not below the list's.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.words import dollars
from fabric.providers.exchange.prices import PRICED_AS, find_floor
from fabric.providers.protocols import options as model_options
from fabric.services.fabrics.yaml.document import FabricProblem
from fabric.services.installation.facts import DRILL_PROVIDER, InstallationFacts

_WITHOUT_DEFAULT = ("anthropic", "google", "azure", "bedrock", "vertex")
"""Providers whose models a fabric names itself: FABRIC_MODEL is the one of ``openai``."""
_OVER_HTTP = ("openai", *_WITHOUT_DEFAULT)


def prices(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each model without a known price."""
    for n, model in enumerate(spec.models):
        if where.price(model) is None:
            named = model.model or (where.default_model if model.provider == "openai" else "") or model.name
            given = model.options.get(PRICED_AS)
            shown = f"{named!r}, priced as {given!r}" if given else repr(named)
            sentence = f"no price is known for {shown}, and a model without one is refused; give price"
            behind = "" if given else ", or name the model behind it in options.priced_as"
            yield FabricProblem(
                f"models.{n}.price", f"{sentence}, in dollars per million tokens (0 where it costs nothing){behind}"
            )


def not_below_list(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each price below that of the price list."""
    for n, model in enumerate(spec.models):
        own = None if model.price is None else model.price.price()
        floor = find_floor(model, where.operator_for(model))
        if own is None or floor is None or not (below := own.fields_below(floor)):
            continue
        field = below[0].replace("_micros", "")
        sentence = (
            f"{field} of model {model.name!r} is below the {dollars(floor.of_each()[below[0]])} of the price list; "
            "leave price out, or have the operator name the model in FABRIC_BELOW_LIST_PRICE"
        )
        yield FabricProblem(f"models.{n}.price", sentence)


def caps(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for a cap of zero with models or tools that cost money."""
    if spec.policy.budget.run_usd_micros:
        return
    for model in spec.models:
        price = where.price(model)
        if price is not None and not price.free:
            sentence = f"is 0, but model {model.name!r} costs money, so every call would be refused; give a cap in micro-dollars"
            yield FabricProblem("policy.budget.run_usd_micros", sentence)
            return
    if priced := [tool.name for tool in spec.tools if tool.price_usd_micros]:
        sentence = f"is 0, but tool {priced[0]!r} has a price, so each of its calls would be refused; give a cap in micro-dollars"
        yield FabricProblem("policy.budget.run_usd_micros", sentence)


def endpoints(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each forbidden address, unknown provider and model without an id."""
    for n, model in enumerate(spec.models):
        if model.base_url and (problem := where.gate.problem(model.base_url)):
            yield FabricProblem(f"models.{n}.base_url", problem)
        if model.provider == DRILL_PROVIDER:
            sentence = (
                f"{DRILL_PROVIDER!r} answers failure drills and no run of a fabric; name the provider whose model it is"
            )
            yield FabricProblem(f"models.{n}.provider", sentence)
        elif where.providers and model.provider not in where.providers:
            known = ", ".join(sorted(where.providers))
            yield FabricProblem(f"models.{n}.provider", f"no provider is named {model.provider!r}; there are: {known}")
        if model.provider in _WITHOUT_DEFAULT and not model.model:
            sentence = f"is empty, and provider {model.provider!r} has no model of the installation's; give its id"
            yield FabricProblem(f"models.{n}.model", sentence)


def sendable_options(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each option that may not be sent."""
    for n, model in enumerate(spec.models):
        if model.provider in _OVER_HTTP and (problem := model_options.problem(model.options, where.extra_body)):
            yield FabricProblem(f"models.{n}", problem)
