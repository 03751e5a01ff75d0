"""How a fabric begins in the browser: chosen from a template, read from a file, or copied from one that there is. Each leads to its draft."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from console.access import actor_of
from console.forms import sentence
from console.templatetags.marks import TIERS
from console.views import errors, fabrics
from console.views.fabric_edit import installation_for
from fabric.core.saga import MUTATES
from fabric.core.spec import FabricSpec
from fabric.core.words import dollars
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import revision_get
from fabric.services.checking import checked
from fabric.services.draft_beginning import Beginning, draft_duplicate, draft_from_template, draft_import
from fabric.services.drafts import NAME_CHARS_MAX
from fabric.services.fabric_templates import Template, templates
from fabric.services.yaml_tree import BYTES_MAX

NUMBER_MAX = 2**31 - 1
TITLE_CHARS_MAX = 200
DAMAGED = "The form was not whole, and nothing was begun: load the page again."
FILE_NAME_CHARS = 100


class TemplateForm(forms.Form):
    """A template, and what the fabric is called."""

    template = forms.CharField(max_length=NAME_CHARS_MAX, error_messages={"required": "Pick a template."})
    name = forms.CharField(max_length=NAME_CHARS_MAX, required=False)
    title = forms.CharField(max_length=TITLE_CHARS_MAX, required=False)


class ImportForm(forms.Form):
    """A fabric as text, or as a file."""

    source = forms.CharField(required=False, strip=False)
    file = forms.FileField(required=False, widget=forms.FileInput)
    name = forms.CharField(max_length=NAME_CHARS_MAX, required=False)
    replace = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        """The text: the file's where there is one."""
        cleaned = super().clean() or {}
        cleaned["origin"] = ""
        if (file := cleaned.get("file")) is not None:
            named = (file.name or "the file")[:FILE_NAME_CHARS]
            if file.size > BYTES_MAX:
                self.add_error("file", f"{named} has {file.size:,} bytes; at most {BYTES_MAX:,} are taken.")
                return cleaned
            try:
                cleaned["source"], cleaned["origin"] = file.read().decode("utf-8-sig"), named
            except UnicodeDecodeError as error:
                self.add_error("file", f"{named} is no UTF-8 text (byte {error.start:,} is not): save it as UTF-8.")
                return cleaned
        if not cleaned.get("source", "").strip() and "source" not in self.errors:
            self.add_error("source", "There is nothing here: paste a fabric, or pick a file.")
        return cleaned


class DuplicateForm(forms.Form):
    """What the copy is called, and which version is copied."""

    to = forms.CharField(
        max_length=NAME_CHARS_MAX,
        error_messages={
            "required": "the copy has no name: give it one",
            "max_length": f"a name has at most {NAME_CHARS_MAX} characters: give a shorter one",
        },
    )
    number = forms.IntegerField(required=False, min_value=1, max_value=NUMBER_MAX)


# -- templates ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Card:
    """A template as it is offered."""

    template: Template
    facts: tuple[tuple[str, str], ...]
    """Word and value."""


def facts(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """What a template has, in words: agents, tiers, tools, gates, people, and the cap."""
    yield "Agents", ", ".join(agent.name for agent in spec.agents)
    others = [tier for tier in spec.tiers.allowed if tier != spec.tiers.default]
    yield "Tiers", ", ".join(TIERS[tier] for tier in (spec.tiers.default, *others))
    undone = [tool.name for tool in spec.all_tools if tool.effect in MUTATES]
    remembered = [f"memory {memory.name}" for memory in spec.memories]
    yield "Tools", ", ".join([*(tool.name for tool in spec.tools), *remembered]) or "none"
    yield "Gates", ", ".join(_gates(spec)) or "schemas only"
    if undone:
        yield "Changes", ", ".join(_changes(spec))
    yield "Cap", f"{dollars(spec.policy.budget.run_usd_micros)} a run"


def _gates(spec: FabricSpec) -> Iterator[str]:
    gates = spec.gates
    if gates.citations != "off":
        yield f"citations {gates.citations}"
    if gates.grounding:
        yield f"grounded in {gates.grounding}"
    if gates.max_outcome_chars:
        yield "length"
    counts = {
        "guardrails": gates.guarded,
        "Cedar policies": gates.policies,
        "invariants": gates.invariants,
        "oracle": gates.oracle,
    }
    yield from (word for word, many in counts.items() if many)
    if gates.grounding_critic:
        yield "auditor"
    if spec.topology.critic:
        yield "critic"


def _changes(spec: FabricSpec) -> Iterator[str]:
    if any(tool.compensation or tool.kind == "memory" for tool in spec.all_tools if tool.effect == "mutating"):
        yield "undone when a run fails"
    if any(tool.effect == "irreversible" for tool in spec.tools):
        yield "a person before each that cannot be undone"
    if spec.asking:
        yield "a person before those that a rule names"
    if spec.policy.humans.four_eyes:
        yield "four eyes"


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The templates, and what the fabric is called. 409: the name is taken; 422: it is none; with what was written."""
    actor = actor_of(request.user)
    if request.method != "POST":
        picked = request.GET.get("template", "")
        return _chooser(request, TemplateForm(initial={"template": picked}), picked, 200)
    form = TemplateForm(request.POST)
    if not form.is_valid():
        return _chooser(request, form, form.data.get("template", ""), 422)
    given = form.cleaned_data
    try:
        begun = draft_from_template(
            actor=actor,
            template=given["template"],
            where=installation_for(actor),
            name=given["name"],
            title=given["title"],
        )
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "not_found", "too_large"):
            raise
        form.add_error(refusal.field if refusal.field in form.fields else None, [sentence(refusal.message)])
        return _chooser(request, form, form.data["template"], errors.STATUS[refusal.code])
    return _begun(request, begun)


def _chooser(request: HttpRequest, form: TemplateForm, picked: str, status: int) -> HttpResponse:
    found = templates()
    names = [one.name for one in found]
    shown = {
        "form": form,
        "cards": [Card(one, tuple(facts(one.spec))) for one in found],
        "picked": picked if picked in names else names[0],
        "where": installation_for(actor_of(request.user)),
    }
    return render(request, "fabrics/new.html", shown, status=status)


# -- files -------------------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def read(request: HttpRequest) -> HttpResponse:
    """A fabric from a file or a pasted text. 409: there is a draft of that name; 413: too long; 422: no text or no name; with what was written."""
    actor = actor_of(request.user)
    if request.method != "POST":
        return _reader(request, ImportForm(), 200)
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _reader(request, form, 422)
    given = form.cleaned_data
    text = given["source"]
    try:
        begun = draft_import(
            actor=actor,
            text=text,
            name=given["name"],
            origin=given["origin"],
            replace=given["replace"],
        )
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large"):
            raise
        field = {"text": "source"}.get(refusal.field or "", refusal.field)
        form.add_error(field if field in form.fields else None, [sentence(one) for one in refusal.problems])
        return _reader(request, form, errors.STATUS[refusal.code], taken=refusal.code == "conflict", source=text)
    wrong = len(checked(begun.draft.text, installation_for(actor, begun.draft.name), name=begun.draft.name).errors)
    if wrong:
        many = f"{wrong} things in it are not as they" if wrong > 1 else "One thing in it is not as it"
        said = f"{begun.draft.name} is a draft. {many} should be yet: each stands beside it, with its line."
        messages.warning(request, said)
    return _begun(request, begun, quiet=bool(wrong))


def _reader(
    request: HttpRequest, form: ImportForm, status: int, *, taken: bool = False, source: str | None = None
) -> HttpResponse:
    text = str(form.data.get("source", "")) if source is None else source
    shown = {"form": form, "text": text, "taken": taken, "most_kb": BYTES_MAX // 1024}
    return render(request, "fabrics/import.html", shown, status=status)


# -- copies ------------------------------------------------------------------------------------------------------------


@require_POST
def duplicate(request: HttpRequest, name: str) -> HttpResponse:
    """A copy of a fabric, or of one of its versions, as a draft under another name. 409: the name is taken; 422: it is none."""
    actor, form = actor_of(request.user), DuplicateForm(request.POST)
    valid = form.is_valid()
    number = form.cleaned_data.get("number")
    seen = revision_get(actor, name, number)
    try:
        if not valid:
            told = [str(one) for problems in form.errors.values() for one in problems]
            raise Refused(told[0] if "to" in form.errors else DAMAGED, code="invalid", field="to")
        begun = draft_duplicate(actor=actor, name=name, number=number, to=form.cleaned_data["to"])
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large"):
            raise
        said = sentence(refusal.message)
        return fabrics.shown(request, seen, pinned=number is not None, refused=said, status=errors.STATUS[refusal.code])
    return _begun(request, begun)


def _begun(request: HttpRequest, begun: Beginning, *, quiet: bool = False) -> HttpResponse:
    for note in begun.notes:
        messages.info(request, f"{note}.")
    if begun.replaced:
        messages.success(request, "The text of your draft was replaced. Undo brings back what stood there.")
    elif not quiet:
        messages.success(request, f"{begun.draft.name} is a draft: nothing runs by it until it is published.")
    return redirect("fabric-draft", name=begun.draft.name)
