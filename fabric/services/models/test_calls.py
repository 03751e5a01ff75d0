"""Test calls: a user calls one model by hand, outside any run, through the adapter that runs use.

The largest cost is recorded before the request, and the real cost afterwards. A web server that dies in between
leaves the reservation as the known cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Q

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.units import US
from fabric.core.workspace_policy.rules import model_denied
from fabric.models import ModelTest, ProviderKey, new_id
from fabric.program.name import program
from fabric.providers.trial import DEADLINE_S, CallTestResult, trial_bytes
from fabric.selectors.workspaces.policies import standing_policy
from fabric.services.acts import audit_record
from fabric.services.budgets.keys import key_reserve, key_settle
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.models.catalogue import HTTP, DeclaredModel, models_list
from fabric.services.rights import right_wanted

SLACK_S = 15.0
"""Seconds besides the call's own deadline, for loading a client library and recording the result."""
AT_ONCE_MAX = 3
"""Largest number of test calls under way in a workspace."""
SAID_CHARS = 500

TryOut = Callable[[ModelSpec, str], CallTestResult]
"""Makes the calls for a model and a workspace's id: ``composition.models.try_out``. It never raises."""


def model_test(*, actor: Actor, model_id: str, try_out: TryOut, at_most: int | None = None) -> DeclaredModel:
    """Make a test call of a model, and return the model with the result. It takes ``DEADLINE_S`` at most, besides
    loading.

    ``at_most``: the largest cost that the actor was shown, in micro-dollars.
    Raises Refused: forbidden, not_found, invalid (there is nothing to call), conflict (one is under way, or it costs
    more by now).
    """
    right_wanted(actor, Right.EDIT, "make test calls of models")
    model = model_get(actor, model_id)
    if not model.testable:
        raise Refused(f"model {_model_in_words(model)} {_untestable(model)}", code="invalid", field="model")
    if denied := model_denied(model.spec, standing_policy(actor.workspace_id).policy):
        raise Refused(f"model {_model_in_words(model)} may not be asked: {denied}", code="invalid", field="model")
    worst = model.worst_usd_micros
    if at_most is not None and (worst is None or worst > at_most):
        now = "has no price any more" if worst is None else f"may cost {worst:,} micro-dollars by now"
        message = f"a test call of {_model_in_words(model)} {now}, but the form said {at_most:,}: reload the page"
        raise Refused(message, code="conflict", field="at_most_usd_micros")
    begun = _begin_test(actor, model, worst)
    key = _key(actor, model)
    trial = try_out(model.spec, actor.workspace_id)
    _record_result(actor, model, begun, trial, key)
    return model_get(actor, model_id)


def model_get(actor: Actor, model_id: str) -> DeclaredModel:
    """Return one model as ``models_list`` has it. Raises Refused not_found."""
    for model in models_list(actor).models:
        if model.id == model_id:
            return model
    message = f"there is no model {model_id[:80]!r} in this workspace; `{program()} model list` lists them"
    raise Refused(message, code="not_found", field="model")


def _untestable(model: DeclaredModel) -> str:
    if model.spec.provider not in HTTP:
        return "answers inside this installation: it has no endpoint to test"
    return "has no model id" if model.host else "has no endpoint: set its base_url, or FABRIC_MODEL_URL"


def _model_in_words(model: DeclaredModel) -> str:
    return repr((model.model or model.spec.name)[:80])


@dataclass(frozen=True, slots=True)
class _PermittedTest:
    """A permitted test call."""

    at: int
    scopes: tuple[str, ...]
    """Budgets of its key's caps, which reserve the largest cost."""


def _begin_test(actor: Actor, model: DeclaredModel, worst: int | None) -> _PermittedTest:
    """Begin a test call; until it is over, or should be, no other user can test this model."""
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
                message = f"a test call of {_model_in_words(model)} is under way: wait until it is over"
                raise Refused(message, code="conflict", field="model") from None
        audit_record(
            actor=actor,
            act=Act.MODEL_TESTED,
            subject=model.host,
            provider=model.spec.provider,
            model=model.model,
            reserved_usd_micros=worst,
        )
        return _PermittedTest(now, _reserve_cost(actor, model, worst, now))


def _reserve_cost(actor: Actor, model: DeclaredModel, worst: int | None, now: int) -> tuple[str, ...]:
    """Reserve the worst case in the caps of the model's key."""
    caps = here.installation(workspace_id=actor.workspace_id).caps_of(model.spec)
    if caps and worst is None:
        message = f"model {_model_in_words(model)} has no price, so no call of it fits the cap of the keys at {model.host}: give it a price"
        raise Refused(message, code="invalid", field="model")
    return key_reserve(caps, worst or 0, now)


def _key(actor: Actor, model: DeclaredModel) -> ProviderKey | None:
    """Return the stored key for the calls."""
    where = {"workspace_id": actor.workspace_id, "provider": model.spec.provider, "host": model.host}
    return ProviderKey.objects.filter(**where).first()


def _record_result(
    actor: Actor, model: DeclaredModel, begun: _PermittedTest, trial: CallTestResult, key: ProviderKey | None
) -> None:
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
