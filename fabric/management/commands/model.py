"""`manage.py model list|test|key`: shows models and their prices, makes test calls, and manages the keys of their
endpoints.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.views.decorators.debug import sensitive_variables

from fabric.composition.models import try_out
from fabric.core.texts.notifications import rfc3339
from fabric.core.values.units import JSON
from fabric.core.values.words import instant
from fabric.management.base import OK, OTHER_END, FabricCommand
from fabric.management.secret_input import read_secret
from fabric.program.name import program
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.models.catalogue import DeclaredModel, EndpointTold, KeyTold, ModelList, models_list
from fabric.services.models.keys import CHARS_MAX, key_delete, key_set
from fabric.services.models.test_calls import model_test


class Command(FabricCommand):
    """Lists models and keys, makes test calls, stores and deletes keys."""

    help = (
        "List the models that published fabrics name, with their prices and keys; ask one to see that it works; "
        "or store and delete keys of endpoints. A key is read from standard input or a variable, never from the command line."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``list``, ``test ID``, ``key set PROVIDER URL`` and ``key delete PROVIDER URL``."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="list|test|key")
        listing = actions.add_parser("list", help="models by endpoint, with price, key and the last test")
        testing = actions.add_parser("test", help="make a test call: up to three small requests, 15 s at most")
        testing.add_argument("model", metavar="MODEL", help="its id as listed, or a model id that only one has")
        keys = actions.add_parser("key", help="store or delete a key").add_subparsers(
            dest="change", required=True, metavar="set|delete"
        )
        setting = keys.add_parser("set", help="store a key, in place of the one that may be there")
        setting.add_argument(
            "--from-env", default="", metavar="NAME", help="the variable that holds it (default: standard input)"
        )
        deleting = keys.add_parser("delete", help="delete a stored key")
        for one in (setting, deleting):
            one.add_argument("provider", metavar="PROVIDER", help="openai, anthropic, google, azure, bedrock or vertex")
            one.add_argument(
                "host", metavar="URL", help="the endpoint's; the key goes to its scheme, host and port alone"
            )
        for one in (listing, testing, setting, deleting):
            one.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action. A test without an answer ends with 1."""
        action = options["change"] if options["action"] == "key" else options["action"]
        said, lines, code = getattr(self, f"_{action}")(options)
        if options["json"]:
            self.put(said)
        else:
            for line in lines:
                self.stdout.write(line)
        return int(code)

    def _list(self, _: dict[str, Any]) -> tuple[JSON, list[str], int]:
        found = models_list(owner_actor())
        lines = [line for endpoint in found.endpoints for line in _endpoint_lines(endpoint)]
        lines += [f"{name}: published by another version, so its models are not shown" for name in found.unread]
        return _models_json(found), lines or ["No published fabric names a model, and FABRIC_MODEL is not set."], OK

    def _test(self, options: dict[str, Any]) -> tuple[JSON, list[str], int]:
        actor = owner_actor()
        wanted = _pick_model(models_list(actor), options["model"])
        if not options["json"] and wanted.testable:
            worst = wanted.worst_usd_micros
            self.tell(f"asking {wanted.model} at {wanted.url}: {'it is unpriced' if worst is None else f'at most {worst:,} micro-dollars'}")  # fmt: skip
        model = model_test(actor=actor, model_id=wanted.id, try_out=try_out, at_most=wanted.worst_usd_micros)
        trial = model.test.trial if model.test else None
        assert model.test is not None
        assert trial is not None
        lines = [trial.said, *(f"{one.probe}: {one.seen}. {one.said}" for one in trial.probes if trial.ok)]
        cost = model.test.cost_usd_micros
        lines.append(f"cost: {'unpriced' if cost is None else f'{cost:,} micro-dollars'}")
        return _model(model), lines, OK if trial.ok else OTHER_END

    @sensitive_variables("key")
    def _set(self, options: dict[str, Any]) -> tuple[JSON, list[str], int]:
        key = read_secret(options["from_env"], "key", CHARS_MAX)
        stored = key_set(actor=owner_actor(), provider=options["provider"], host=options["host"], key=key)
        said = f"the key that ends in {stored.last_four} goes to {stored.host} from now on, and nowhere else"
        return _key(stored), [said], OK

    def _delete(self, options: dict[str, Any]) -> tuple[JSON, list[str], int]:
        deleted = key_delete(actor=owner_actor(), provider=options["provider"], host=options["host"])
        said = f"the key that ended in {deleted.last_four} is deleted: {deleted.host} is called without it"
        return {"provider": deleted.provider, "host": deleted.host, "last_four": deleted.last_four}, [said], OK


def _pick_model(found: ModelList, wanted: str) -> DeclaredModel:
    """Return a model by id, or by a model id that only one has."""
    for model in found.models:
        if model.id == wanted:
            return model
    named = [model for model in found.models if model.model == wanted]
    if len(named) == 1:
        return named[0]
    if not named:
        message = f"there is no model {wanted[:80]!r}; `{program()} model list` lists them"
        raise Refused(message, code="not_found", field="model")
    ids = ", ".join(model.id for model in named)
    raise Refused(f"{len(named)} models are {wanted[:80]!r}: give the id of one ({ids})", code="invalid", field="model")


def _endpoint_lines(one: EndpointTold) -> list[str]:
    key = f"stored key ...{one.key.last_four}" if one.key else f"key from {one.key_from}" if one.key_from else "no key"
    if one.key and not one.key.opens:
        key += ", which needs to be set again: the key ring lacks what it was sealed under"
    where = f"{one.host} ({one.provider}): {key}" if one.host else f"{one.provider}: no endpoint"
    return [where, *(f"  {_line(model)}" for model in one.models)]


def _line(model: DeclaredModel) -> str:
    price = model.price.price
    costs = "unpriced"
    if price is not None:
        dollars = [f"{micros / 1_000_000:g}" for micros in (price.input_usd_micros_per_mtok, price.output_usd_micros_per_mtok)]  # fmt: skip
        costs = f"${dollars[0]} in, ${dollars[1]} out per million tokens ({model.price.source}{', old' if model.price.old else ''})"  # fmt: skip
    used = ", ".join(f"{use.fabric} r{use.number}" for use in model.uses) or "no fabric"
    test = model.test
    if test is None:
        tested = "never tested"
    elif test.trial is None:
        tested = "a test is under way" if test.running else "the last test broke off"
    else:
        tested = f"{'answered' if test.trial.ok else 'failed'} {instant(test.started_at)}"
    return f"{model.id}  {model.model or model.spec.name}  {costs}  used by {used}  {tested}"


def _models_json(found: ModelList) -> JSON:
    return {
        "models": [_model(model) for model in found.models],
        "keys": [_key(one.key) for one in found.endpoints if one.key],
        "list_version": found.list_version,
        "list_as_of": rfc3339(found.list_as_of),
    }


def _model(model: DeclaredModel) -> JSON:
    price, test = model.price.price, model.test
    return {
        "id": model.id,
        "provider": model.spec.provider,
        "model": model.model,
        "url": model.url,
        "input_usd_micros_per_mtok": price.input_usd_micros_per_mtok if price else None,
        "output_usd_micros_per_mtok": price.output_usd_micros_per_mtok if price else None,
        "price_source": model.price.source,
        "price_as_of": None if model.price.as_of is None else rfc3339(model.price.as_of),
        "price_old": model.price.old,
        "capabilities": sorted(model.spec.capable),
        "context_tokens": model.context_tokens,
        "used_by": [use.fabric for use in model.uses],
        "test_usd_micros_max": model.worst_usd_micros,
        "test": None
        if test is None
        else {
            "started_at": rfc3339(test.started_at),
            "started_by": test.started_by,
            "running": test.running,
            "ok": test.trial.ok if test.trial else None,
            "said": test.trial.said if test.trial else "",
            "cause": test.trial.cause if test.trial else "",
            "cost_usd_micros": test.cost_usd_micros,
            "seen": {one.probe: one.seen for one in test.trial.probes} if test.trial else {},
        },
    }


def _key(one: KeyTold) -> JSON:
    return {
        "provider": one.provider,
        "host": one.host,
        "last_four": one.last_four,
        "added_at": rfc3339(one.added_at),
        "added_by": one.added_by,
        "used_at": None if one.used_at is None else rfc3339(one.used_at),
        "opens": one.opens,
    }
