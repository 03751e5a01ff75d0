"""Shows models and prices: endpoints and keys, costs and their sources, and test calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.requests.throttle import MODEL_TESTS, count_request
from console.site.sentences import sentence
from console.words.headlines import Headline
from fabric.composition.models import try_out
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.spec.tree import Capability
from fabric.providers.trial import DEADLINE_S, OUTPUT_TOKENS_MAX, PROBES, Seen
from fabric.selectors.errors import Refused
from fabric.services.budgets.keys import key_budgets
from fabric.services.models.catalogue import HTTP, OLD_DAYS, DeclaredModel, EndpointTold, ModelList, models_list
from fabric.services.models.keys import CHARS_MAX, URL_CHARS_MAX, key_delete, key_set
from fabric.services.models.test_calls import model_get, model_test
from fabric.services.rights import SIGN_IN

UNPRICED = "unpriced"
"""Form value for the largest cost of a test if the price is unknown."""
FIND_CHARS_MAX = 200
_PORTS = {"https": 443, "http": 80}
VARIABLES: Mapping[str, str] = {
    "openai": "FABRIC_MODEL_KEY",
    "anthropic": "FABRIC_ANTHROPIC_KEY",
    "google": "FABRIC_GOOGLE_KEY",
    "azure": "FABRIC_AZURE_KEY",
    "bedrock": "FABRIC_BEDROCK_KEY",
    "vertex": "FABRIC_VERTEX_KEY",
}
"""Variable of each provider's key. Total over ``HTTP``."""
CAN: Mapping[Capability, tuple[str, str]] = {
    Capability.TOOL_USE: ("tools", "tool"),
    Capability.STRUCTURED_OUTPUT: ("schema", "schema"),
    Capability.VISION: ("vision", ""),
    Capability.REASONING: ("reasoning", ""),
}
"""Label of each capability, and the probe that tests it (empty: none); total over ``Capability``."""
Mark = Literal["seen", "missing", "declared", "undeclared"]
MARKS: Mapping[tuple[bool, Seen], Mark | None] = {
    (True, "yes"): "seen",
    (True, "no"): "missing",
    (True, "unknown"): "declared",
    (False, "yes"): "undeclared",
    (False, "no"): None,
    (False, "unknown"): None,
}
"""Mark by the fabric's declaration and the test's finding; None: no mark. Total."""
MARK_WORDS: Mapping[Mark, tuple[str, str, str]] = {
    "seen": ("ok", "check", "declared, and seen in the last test"),
    "missing": ("warn", "alert", "declared, but not seen in the last test"),
    "declared": ("neutral", "", "declared, not looked for yet"),
    "undeclared": ("neutral", "plus", "seen in the last test, though the fabric declares it off"),
}
"""Tone, icon and words of each mark; total."""


class KeyForm(forms.Form):
    """Form with a key for an endpoint. A typed key is never sent back."""

    provider = forms.CharField(required=False, max_length=40)
    host = forms.CharField(required=False, max_length=URL_CHARS_MAX)
    key = forms.CharField(required=False, max_length=4 * CHARS_MAX, strip=False)


@dataclass(frozen=True, slots=True)
class Can:
    """A capability as the page shows it."""

    word: str
    mark: Mark

    @property
    def tone(self) -> str:
        """Return the tone of the mark."""
        return MARK_WORDS[self.mark][0]

    @property
    def icon(self) -> str:
        """Return the icon of the mark; empty if it has none."""
        return MARK_WORDS[self.mark][1]

    @property
    def mark_words(self) -> str:
        """Return the words of the mark."""
        return MARK_WORDS[self.mark][2]


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model as a row of the page."""

    one: DeclaredModel

    @property
    def can(self) -> list[Can]:
        """Return the capabilities of the model, declared and tested."""
        trial = self.one.test.trial if self.one.test else None
        found = []
        for capability, (word, probe) in CAN.items():
            seen: Seen = (
                next((one.seen for one in trial.probes if one.probe == probe), "unknown") if trial else "unknown"
            )
            if (mark := MARKS[capability in self.one.spec.capable, seen]) is not None:
                found.append(Can(word, mark))
        return found

    @property
    def badge(self) -> tuple[str, str, str] | None:
        """Return word, tone and icon of the last test; None if there was none."""
        test = self.one.test
        if test is None:
            return None
        if test.running:
            return "Under way", "info", "wait"
        if test.trial is None:
            return "Broke off", "warn", "alert"
        return ("Answered", "ok", "okc") if test.trial.ok else ("Failed", "danger", "alert")


@dataclass(frozen=True, slots=True)
class EndpointCard:
    """An endpoint as a card of the page."""

    one: EndpointTold
    number: int
    find: str = ""
    """Words of the filter, in lower case; empty: all models are shown."""

    @property
    def title(self) -> str:
        """Return the host in the form for people."""
        if not self.one.host:
            return "No endpoint is set" if self.one.provider in HTTP else "Inside this installation (no API)"
        parts = urlsplit(self.one.host)
        default = parts.port == _PORTS.get(parts.scheme)
        return parts.netloc.rpartition(":")[0] if default else parts.netloc

    @property
    def insecure(self) -> bool:
        """Return True if the endpoint is called without TLS."""
        return self.one.host.startswith("http://")

    @property
    def keyless(self) -> bool:
        """Return True if calls are refused until a key is set: for the operator's endpoint."""
        return self.one.own and not self.insecure and self.one.key is None and not self.one.key_from

    @property
    def variable(self) -> str:
        """Return the variable with the key of the operator's endpoint."""
        return VARIABLES[self.one.provider]

    @property
    def http(self) -> bool:
        """Return True if the provider is called over HTTP, even if no address is set."""
        return self.one.provider in HTTP

    @property
    def rows(self) -> list[ModelRow]:
        """Return the rows of its models that are looked for."""
        return [ModelRow(model) for model in self.one.models if self.find in _words(model, self)]


def _words(model: DeclaredModel, card: EndpointCard) -> str:
    """Return the words in which the filter looks: model, endpoint, fabrics, agents and drafts."""
    named = [word for use in model.uses for word in (use.fabric, use.name, *use.agents)]
    drafted = [word for draft in model.drafts for word in (draft.fabric, draft.author)]
    return "\n".join((model.model, model.spec.name, card.one.provider, card.title, *named, *drafted)).lower()


def headline(found: ModelList) -> Headline:
    """Return the page's headline: the worst problem."""
    models = found.models
    hosts = {one.host for one in found.endpoints if one.host}
    lede = f"{_many(len(models), 'model')} at {_many(len(hosts), 'endpoint').lower()}, as the published fabrics and the environment name them."
    if not models and not found.endpoints:
        return Headline("No model is named yet", "Published fabrics name models, and so does FABRIC_MODEL.", "neutral")
    closed = [one for one in found.endpoints if one.key and not one.key.opens]
    if closed:
        return Headline(f"{_many(len(closed), 'stored key')} to be set again", lede, "danger")
    unset = [one for one in models if one.uses and not one.host and one.spec.provider in HTTP]
    if unset:
        return Headline(f"{_many(len(unset), 'model')} without an endpoint", lede, "danger")
    keyless = [one for n, one in enumerate(found.endpoints) if EndpointCard(one, n).keyless]
    if keyless:
        return Headline(f"{_many(len(keyless), 'endpoint')} without a key", lede, "danger")
    failed = [one for one in models if one.test and one.test.trial and not one.test.trial.ok]
    if failed:
        return Headline(f"{_many(len(failed), 'model')} did not answer the last test", lede, "danger")
    # That of the environment gets its price from the fabric that will name it.
    unpriced = [one for one in models if one.price.price is None and one.uses]
    if unpriced:
        have = "has" if len(unpriced) == 1 else "have"
        return Headline(f"{_many(len(unpriced), 'model')} {have} no price", lede, "warn")
    old = [one for one in models if one.price.old]
    if old:
        return Headline(f"{_many(len(old), 'price')} of more than {OLD_DAYS} days ago", lede, "warn")
    if not any(one.uses for one in models):
        return Headline("No fabric names a model yet", lede, "neutral")
    return Headline("Every model has a price", lede, "ok")


def _many(count: int, noun: str) -> str:
    return f"{'One' if count == 1 else f'{count:,}'} {noun}{'' if count == 1 else 's'}"


@require_safe
def models(request: HttpRequest) -> HttpResponse:
    """Endpoints with their keys, and models with their prices."""
    return _page(request, find_actor(request.user))


@sensitive_variables("form")
@sensitive_post_parameters("key")
@require_POST
def key(request: HttpRequest) -> HttpResponse:
    """Store a key for an endpoint, replacing an existing one.

    403: only for owners. 422: an invalid field; the key has to be typed again.
    """
    actor, form, status = find_actor(request.user), KeyForm(request.POST), 422
    if form.is_valid():
        try:
            stored = key_set(actor=actor, **form.cleaned_data)
        except Refused as refusal:
            if refusal.field == SIGN_IN:
                raise
            form.add_error(refusal.field if refusal.field in form.fields else None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            messages.success(
                request, f"The key that ends in {stored.last_four} goes to {stored.host} from now on, and nowhere else."
            )
            return redirect("models")
    return _page(request, actor, form=form, status=status)


@require_POST
def delete_key(request: HttpRequest) -> HttpResponse:
    """Delete a stored key. 403: only for owners. 404: no key is stored."""
    actor = find_actor(request.user)
    provider, host = (request.POST.get(name, "")[:URL_CHARS_MAX] for name in ("provider", "host"))
    try:
        deleted = key_delete(actor=actor, provider=provider, host=host)
    except Refused as refusal:
        if refusal.field == SIGN_IN:
            raise
        return _page(request, actor, problem=sentence(refusal.message), status=errors.STATUS[refusal.code])
    messages.success(
        request, f"The key that ended in {deleted.last_four} is deleted: {deleted.host} is called without it."
    )
    return redirect("models")


@require_POST
def test(request: HttpRequest, model_id: str) -> HttpResponse:
    """Make a test call to a model and show the result; it takes at most a quarter of a minute.

    403: only for editors. 409: a test is running. 429: too often.
    """
    actor = find_actor(request.user)
    if wait := count_request(MODEL_TESTS, f"{actor.workspace_id}:{actor.name}"):
        message = f"More than {MODEL_TESTS.most} test calls within a minute: try again in {wait} s."
        answer = _page(request, actor, problem=message, status=429)
        answer.headers["Retry-After"] = str(wait)
        return answer
    model_get(actor, model_id)  # A missing model is reported first.
    limit = request.POST.get("at_most", "")
    # The cost that the button showed; without it the agreement covers nothing known.
    if limit != UNPRICED and not (limit.isascii() and limit.isdecimal() and len(limit) < 16):
        return _page(
            request, actor, problem="The form was incomplete. No test was made: load the page again.", status=422
        )
    at_most = None if limit == UNPRICED else int(limit)
    try:
        model = model_test(actor=actor, model_id=model_id, try_out=try_out, at_most=at_most)
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        return _page(request, actor, problem=sentence(refusal.message), status=errors.STATUS[refusal.code])
    trial = model.test.trial if model.test else None
    if trial is not None:
        how = f"{model.model} answered." if trial.ok else f"{model.model} did not answer: {sentence(trial.said)}"
        (messages.success if trial.ok else messages.warning)(request, how)
    return redirect(f"{reverse('models')}#m-{model.id}")


def _page(
    request: HttpRequest, actor: Actor, *, form: KeyForm | None = None, problem: str = "", status: int = 200
) -> HttpResponse:
    found = models_list(actor)
    find = request.GET.get("find", "")[:FIND_CHARS_MAX].strip()
    cards = [EndpointCard(one, number, find.lower()) for number, one in enumerate(found.endpoints)]
    shown = {
        "headline": headline(found),
        "cards": [card for card in cards if card.rows or not find],
        "find": find,
        "found": sum(len(card.rows) for card in cards),
        "count": len(found.models),
        "unread": found.unread,
        "list_version": found.list_version,
        "list_as_of": found.list_as_of,
        "list_old": found.now - found.list_as_of > OLD_DAYS * 86_400_000_000,
        "old_days": OLD_DAYS,
        "may_keys": actor.may(Right.KEYS),
        "may_test": actor.may(Right.EDIT),
        "lacks": f"Test calls are for {holders(Right.EDIT)}.",
        "keys_for": holders(Right.KEYS),
        "providers": HTTP,
        "form": form or KeyForm(),
        "problem": problem,
        "deadline_s": round(DEADLINE_S),
        "probes": len(PROBES),
        "output_tokens": OUTPUT_TOKENS_MAX,
        "budgets": key_budgets(actor),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "models/list.html", shown, status=status)
