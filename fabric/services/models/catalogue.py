"""Catalogue of models: those of a workspace's published fabrics, and the operator's own, with address, key and
price.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Literal

from pydantic import ValidationError

from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.cost import Price
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.units import US
from fabric.models import ModelTest, ProviderKey
from fabric.providers.exchange.keys import origin_text
from fabric.providers.exchange.prices import find_listed, list_verified_on, list_version
from fabric.providers.exchange.wire import origin
from fabric.providers.trial import CallTestResult, trial_read, worst_cost
from fabric.secrets.secret_box import PROVIDER_KEY
from fabric.services.fabrics.uses import DraftUse, list_draft_parts, list_published, read_spec
from fabric.services.installation import facts as here
from fabric.services.installation.facts import InstallationFacts

DAY_US = 86_400 * US
OLD_DAYS = 90
"""Days after which an unverified price is marked as old."""
HTTP = ("openai", "anthropic", "google", "azure", "bedrock", "vertex")
"""Providers that are called over HTTP, so that their models have a host and may need a key."""
_NOT_ASKED = {"name", "fallbacks", "cheaper"}
"""Fields of a model about its use in a fabric, not about its calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """A published fabric that names a model."""

    fabric: str
    number: int
    """Number of the revision that a new run pins."""
    name: str
    """The fabric's name of the model."""
    agents: tuple[str, ...]
    """Agents that use it, in the fabric's order; none: it is only a fallback."""
    published_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTold:
    """Price of a model with its source."""

    price: Price | None
    """None: unpriced, which is not 0: its calls are refused."""
    source: Literal["fabric", "list", "none"]
    as_of: int | None
    """Day on which it was written into the fabric, or the newest on which the list was verified. Microseconds since the
    epoch.
    """
    old: bool
    """True if that is more than ``OLD_DAYS`` ago."""

    @property
    def zero(self) -> bool:
        """True if the model costs nothing because an author declared so."""
        return self.price is not None and self.price.free


@dataclass(frozen=True, slots=True, kw_only=True)
class TestTold:
    """The last test call of a model."""

    started_at: int
    started_by: str
    running: bool
    reserved_usd_micros: int | None
    cost_usd_micros: int | None
    """None: unknown, since it has no price or did not finish."""
    trial: CallTestResult | None
    """None: it is under way, or did not finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTold:
    """The visible part of a stored key: never the key."""

    id: str
    provider: str
    host: str
    last_four: str
    added_at: int
    added_by: str
    used_at: int | None
    tested_at: int | None
    tested_ok: bool
    tested_said: str
    opens: bool
    """False: its key is not in the key ring, or its row was changed: it has to be set again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredModel:
    """A declaration of a model: two fabrics that declare one model differently have two."""

    id: str
    """Identifier; equal declarations in a workspace have equal ids."""
    spec: ModelSpec
    model: str
    """The provider's model id, or the operator's for one without; empty: there is none."""
    url: str
    """Address of the requests; empty: none over HTTP."""
    host: str
    """Scheme, host and port of the address; empty: answered inside this installation."""
    own: bool
    """True if the environment names it."""
    uses: tuple[ModelUse, ...]
    drafts: tuple[DraftUse, ...] = ()
    """Drafts that declare it so."""
    price: PriceTold
    context_tokens: int | None
    context_source: Literal["fabric", "list", "none"]
    test: TestTold | None = None

    @property
    def testable(self) -> bool:
        """True if a test call can be made."""
        return bool(self.host and self.model)

    @property
    def worst_usd_micros(self) -> int | None:
        """Return the largest cost of a test call, in micro-dollars; None: it has no price."""
        return None if self.price.price is None else worst_cost(self.price.price)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTold:
    """A host with models of one protocol, and its key."""

    provider: str
    host: str
    """Host; empty: answered inside this installation."""
    models: tuple[DeclaredModel, ...]
    key: KeyTold | None
    """The workspace's own key, which goes before the environment's."""
    key_from: str
    """Variable whose key is used where none is stored; empty: none."""
    own: bool
    """True for the operator's endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """All models with their endpoints."""

    endpoints: tuple[EndpointTold, ...]
    list_version: str
    list_as_of: int
    unread: tuple[str, ...]
    """Published fabrics whose revision this version cannot read."""
    now: int

    @property
    def models(self) -> tuple[DeclaredModel, ...]:
        """Return the models of all endpoints."""
        return tuple(model for endpoint in self.endpoints for model in endpoint.models)


def models_list(actor: Actor, *, now: int | None = None) -> ModelList:
    """Return the models of an actor's workspace. ``now``: microseconds since the epoch."""
    at = time.time_ns() // 1_000 if now is None else now
    found, unread = _named_models(actor, at)
    tests = {row.model: row for row in ModelTest.objects.filter(workspace_id=actor.workspace_id)}
    models = [replace(model, test=_test(tests.get(model.id), at)) for model in found]
    return ModelList(
        endpoints=tuple(_endpoints(models, keys_list(actor))),
        list_version=list_version(),
        list_as_of=_day(list_verified_on()),
        unread=unread,
        now=at,
    )


def keys_list(actor: Actor) -> list[KeyTold]:
    """Return the workspace's stored keys, by host."""
    box = here.secret_box()
    rows = ProviderKey.objects.filter(workspace_id=actor.workspace_id).order_by("host", "provider")
    return [key_told(row, opens=box.opens(bytes(row.sealed), *PROVIDER_KEY.list_bindings(row))) for row in rows]


def key_told(row: ProviderKey, *, opens: bool = True) -> KeyTold:
    """Return the visible part of a row."""
    return KeyTold(
        id=row.id,
        provider=row.provider,
        host=row.host,
        last_four=row.last_four,
        added_at=row.added_at,
        added_by=row.added_by,
        used_at=row.used_at,
        tested_at=row.tested_at,
        tested_ok=row.tested_ok,
        tested_said=row.tested_said,
        opens=opens,
    )


def _named_models(actor: Actor, now: int) -> tuple[list[DeclaredModel], tuple[str, ...]]:
    """Return every named model with its uses, and the unreadable fabrics."""
    there, installed = here.environment(), here.installation(workspace_id=actor.workspace_id)
    found: dict[str, DeclaredModel] = {}
    if (own := there.get("openai")) and own.model:
        spec = ModelSpec(name="environment")
        model = _model(actor.workspace_id, spec, installed, there, now=now, written_at=now, own=True)
        found[model.id] = model
    unread = []
    for row in list_published(actor):
        assert row.published is not None
        try:
            fabric = read_spec(row.published.spec)
        except ValidationError:
            unread.append(row.name)
            continue
        at = int(row.published.published_at.timestamp() * US)
        for spec in fabric.models:
            model = _model(actor.workspace_id, spec, installed, there, now=now, written_at=at)
            use = _use(fabric, row.name, row.published.number, spec, at)
            known = found.get(model.id, model)
            # For equal prices the newest fabric with the price gives its age.
            price = known.price if (known.price.as_of or 0) >= (model.price.as_of or 0) else model.price
            found[model.id] = replace(known, uses=(*known.uses, use), price=price)
    for draft, parts in list_draft_parts(actor):
        for spec in parts.models:
            model = _model(actor.workspace_id, spec, installed, there, now=now, written_at=now)
            if (known_one := found.get(model.id)) is not None and draft not in known_one.drafts:
                found[model.id] = replace(known_one, drafts=(*known_one.drafts, draft))
    return list(found.values()), tuple(unread)


def _use(fabric: FabricSpec, name: str, number: int, spec: ModelSpec, at: int) -> ModelUse:
    agents = tuple(agent.name for agent in fabric.agents if agent.model == spec.name)
    return ModelUse(fabric=name, number=number, name=spec.name, agents=agents, published_at=at)


def _model(
    workspace_id: str,
    spec: ModelSpec,
    installed: InstallationFacts,
    there: Mapping[str, here.OwnEndpoint],
    *,
    now: int,
    written_at: int,
    own: bool = False,
) -> DeclaredModel:
    endpoint = there.get(spec.provider)
    url = (spec.base_url or (endpoint.url if endpoint else "")).strip().rstrip("/") if spec.provider in HTTP else ""
    model = spec.model or (endpoint.model if endpoint else "")
    where = origin(url)
    known = find_listed(spec, installed.operator)
    declared = spec.model_dump(mode="json", exclude=_NOT_ASKED) | {"model": model, "base_url": url}
    declared["workspace"] = workspace_id
    if spec.provider not in HTTP:
        del declared["options"]  # They script single agents: the model is the same.
    context = spec.context_tokens or (known.context_tokens if known else None)
    return DeclaredModel(
        id=fingerprint(declared),
        spec=spec,
        model=model,
        url=url,
        host=origin_text(where) if where else "",
        own=own,
        uses=(),
        price=_price(spec, installed.price(spec), written_at, now),
        context_tokens=context,
        context_source="fabric" if spec.context_tokens else "list" if context else "none",
    )


def _price(spec: ModelSpec, price: Price | None, written_at: int, now: int) -> PriceTold:
    if spec.price is not None and price == spec.price.price():
        return PriceTold(price=price, source="fabric", as_of=written_at, old=_is_old(written_at, now))
    if price is None:
        return PriceTold(price=None, source="none", as_of=None, old=False)
    as_of = _day(list_verified_on())
    return PriceTold(price=price, source="list", as_of=as_of, old=_is_old(as_of, now))


def _is_old(as_of: int, now: int) -> bool:
    return now - as_of > OLD_DAYS * DAY_US


def _day(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * US


def _test(row: ModelTest | None, now: int) -> TestTold | None:
    if row is None:
        return None
    return TestTold(
        started_at=row.started_at,
        started_by=row.started_by,
        running=row.ended_at is None and row.until > now,
        reserved_usd_micros=row.reserved_usd_micros,
        cost_usd_micros=row.cost_usd_micros,
        trial=trial_read(bytes(row.outcome)) if row.ended_at is not None else None,
    )


def _endpoints(models: list[DeclaredModel], keys: list[KeyTold]) -> Iterator[EndpointTold]:
    """Yield the operator's endpoints first, the others by host, and the internal ones last. Hosts that only have a key
    are included.
    """
    own = {
        (name, origin_text(where)): one
        for name, one in here.environment().items()
        if (where := origin(one.url)) is not None
    }
    stored = {(key.provider, key.host): key for key in keys}
    named = {(model.spec.provider, model.host) for model in models}
    # A vendor's address exists by default: it is shown where a fabric uses it, or a key was stored for it.
    told = {where for where, one in own.items() if one.key_from or where[0] == "openai"}
    places = named | set(stored) | told
    for where in sorted(places, key=lambda one: (not one[1], one not in own, one[1], one[0])):
        yield EndpointTold(
            provider=where[0],
            host=where[1],
            models=tuple(model for model in models if (model.spec.provider, model.host) == where),
            key=stored.get(where),
            key_from=own[where].key_from if where in own else "",
            own=where in own,
        )
