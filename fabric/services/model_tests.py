"""Test calls: one model is asked by hand, outside any run, through the adapter that runs use.

What it may cost at most is written down before anything is sent, and what it did cost afterwards; a web server that dies in between leaves the
reservation as what is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Q

from fabric.adapters.providers.trial import DEADLINE_S, Trial, trial_bytes
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.spec import ModelSpec
from fabric.core.workspace_policy.rules import model_denied
from fabric.models import ModelTest, ProviderKey, new_id
from fabric.selectors.workspace_policies import standing_policy
from fabric.services import here
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.key_spending import key_reserve, key_settle
from fabric.services.model_list import HTTP, Model, models_list
from fabric.services.rights import right_wanted

US = 1_000_000
SLACK_S = 15.0
"""Loading a client library and writing down what came of it, beside the calls' own deadline."""
AT_ONCE_MAX = 3
"""Test calls under way in a workspace."""
SAID_CHARS = 500

TryOut = Callable[[ModelSpec, str], Trial]
"""Makes the calls, for a model and a workspace's id: ``model_ports.try_out``. It never raises."""


def model_test(*, actor: Actor, model_id: str, try_out: TryOut, at_most: int | None = None) -> Model:
    """Asks a model, and gives it with what came of it. It takes ``DEADLINE_S`` at most, beside loading. ``at_most``: what whoever asks was told
    that it costs at most, micro-dollars.

    Raises Refused: forbidden, not_found, invalid (there is nothing to ask), conflict (one is under way, or it costs more by now).
    """
    right_wanted(actor, Right.EDIT, "make test calls of models")
    model = model_get(actor, model_id)
    if not model.testable:
        raise Refused(f"model {_called(model)} {_untestable(model)}", code="invalid", field="model")
    if denied := model_denied(model.spec, standing_policy(actor.workspace_id).policy):
        raise Refused(f"model {_called(model)} may not be asked: {denied}", code="invalid", field="model")
    worst = model.worst_usd_micros
    if at_most is not None and (worst is None or worst > at_most):
        now = "has no price any more" if worst is None else f"may cost {worst:,} micro-dollars by now"
        message = f"a test call of {_called(model)} {now}, and {at_most:,} were told: look again"
        raise Refused(message, code="conflict", field="at_most_usd_micros")
    begun = _claimed(actor, model, worst)
    key = _key(actor, model)
    trial = try_out(model.spec, actor.workspace_id)
    _written(actor, model, begun, trial, key)
    return model_get(actor, model_id)


def model_get(actor: Actor, model_id: str) -> Model:
    """One model as ``models_list`` has it. Refused not_found."""
    for model in models_list(actor).models:
        if model.id == model_id:
            return model
    message = f"there is no model {model_id[:80]!r} in this workspace; `manage.py model list` lists them"
    raise Refused(message, code="not_found", field="model")


def _untestable(model: Model) -> str:
    if model.spec.provider not in HTTP:
        return "is answered inside this installation: no endpoint is asked"
    return "has no model id" if model.host else "has no endpoint: set its base_url, or FABRIC_MODEL_URL"


def _called(model: Model) -> str:
    return repr((model.model or model.spec.name)[:80])


@dataclass(frozen=True, slots=True)
class _Begun:
    """A test call that may be made."""

    at: int
    scopes: tuple[str, ...]
    """The budgets of its key's caps, which hold what it may cost at most."""


def _claimed(actor: Actor, model: Model, worst: int | None) -> _Begun:
    """Begins it: nobody else tests the same model until it is over, or should be."""
    now = time.time_ns() // 1_000
    until = now + int((DEADLINE_S + SLACK_S) * US)
    begun = {
        "started_at": now,
        "started_by": actor.name,
        "until": until,
        "ended_at": None,
        "reserved_usd_micros": worst,
        "cost_usd_micros": None,
        "outcome": b"",
    }
    mine = ModelTest.objects.filter(workspace_id=actor.workspace_id)
    over = Q(ended_at__isnull=False) | Q(until__lte=now)
    with transaction.atomic():
        if mine.exclude(over).count() >= AT_ONCE_MAX:
            message = f"{AT_ONCE_MAX} test calls are under way: wait until one is over"
            raise Refused(message, code="conflict", field="model")
        if not mine.filter(over, model=model.id).update(**begun):
            try:
                with transaction.atomic():
                    ModelTest.objects.create(id=new_id(), workspace_id=actor.workspace_id, model=model.id, **begun)
            except IntegrityError:
                message = f"a test call of {_called(model)} is under way: wait until it is over"
                raise Refused(message, code="conflict", field="model") from None
        audit_record(
            actor=actor,
            act=Act.MODEL_TESTED,
            subject=model.host,
            provider=model.spec.provider,
            model=model.model,
            reserved_usd_micros=worst,
        )
        return _Begun(now, _reserved(actor, model, worst, now))


def _reserved(actor: Actor, model: Model, worst: int | None, now: int) -> tuple[str, ...]:
    """Reserves the worst case from the caps of the model's key."""
    caps = here.installation(workspace_id=actor.workspace_id).caps_of(model.spec)
    if caps and worst is None:
        message = f"model {_called(model)} has no price, so no call of it fits the cap of the keys at {model.host}: give it a price"
        raise Refused(message, code="invalid", field="model")
    return key_reserve(caps, worst or 0, now)


def _key(actor: Actor, model: Model) -> ProviderKey | None:
    """The stored key that the calls go out with."""
    where = {"workspace_id": actor.workspace_id, "provider": model.spec.provider, "host": model.host}
    return ProviderKey.objects.filter(**where).first()


def _written(actor: Actor, model: Model, begun: _Begun, trial: Trial, key: ProviderKey | None) -> None:
    now, cost = time.time_ns() // 1_000, trial.cost(model.price.price)
    row = ModelTest.objects.filter(workspace_id=actor.workspace_id, model=model.id, started_at=begun.at)
    with transaction.atomic():
        row.update(ended_at=now, cost_usd_micros=cost, outcome=trial_bytes(trial))
        if cost is not None and model.worst_usd_micros is not None:
            key_settle(begun.scopes, model.worst_usd_micros, cost)
        if key is not None:
            # One that was replaced meanwhile was not tested.
            same = ProviderKey.objects.filter(id=key.id, added_at=key.added_at)
            same.update(tested_at=now, tested_ok=trial.ok, tested_said=trial.said[:SAID_CHARS])
