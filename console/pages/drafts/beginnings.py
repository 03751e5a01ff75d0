"""Starts a fabric in the browser: from a template, a file, or a copy of another fabric. Each leads to a draft."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from console.pages.drafts.views import installation_for
from console.pages.fabrics import views as fabrics
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.templatetags.marks import TIERS
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.saga import MUTATES
from fabric.core.values.words import dollars
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.drafts.beginnings import NewDraft, draft_duplicate, draft_from_template, draft_import
from fabric.services.drafts.changes import NAME_CHARS_MAX
from fabric.services.fabrics.checks import check_text
from fabric.services.fabrics.templates import Template, templates
from fabric.services.fabrics.yaml.tree import BYTES_MAX

NUMBER_MAX = 2**31 - 1
TITLE_CHARS_MAX = 200
DAMAGED = "The form was incomplete, so no draft was created. Load the page again."
FILE_NAME_CHARS = 100


class TemplateForm(forms.Form):
    """Form with a template and the name of the new fabric."""

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
        """Take the text from the file, if one was sent."""
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
    """Name of the copy, and the revision to copy."""

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
class TemplateCard:
    """A template as a card of the page."""

    template: Template
    facts: tuple[tuple[str, str], ...]
    """Word and value."""


def facts(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield the facts of a template in words: agents, tiers, tools, gates, people, and the cap."""
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
        "guardrails": gates.guardrails_in_force,
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
    if spec.asking_rules:
        yield "a person before those that a rule names"
    if spec.policy.humans.four_eyes:
        yield "four eyes"


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Show the templates; POST starts a draft from one. 409: the name is taken. 422: invalid name. The page keeps
    the input.
    """
    actor = find_actor(request.user)
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
    return _redirect_to_draft(request, begun)


def _chooser(request: HttpRequest, form: TemplateForm, picked: str, status: int) -> HttpResponse:
    found = templates()
    names = [one.name for one in found]
    shown = {
        "form": form,
        "cards": [TemplateCard(one, tuple(facts(one.spec))) for one in found],
        "picked": picked if picked in names else names[0],
        "where": installation_for(find_actor(request.user)),
    }
    return render(request, "drafts/new.html", shown, status=status)


# -- files -------------------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def read_fabric(request: HttpRequest) -> HttpResponse:
    """Start a draft from a file or a pasted text.

    409: a draft has that name. 413: too long. 422: text or name is missing. The page keeps the input.
    """
    actor = find_actor(request.user)
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
    wrong = len(check_text(begun.draft.text, installation_for(actor, begun.draft.name), name=begun.draft.name).errors)
    if wrong:
        many = (
            f"{wrong} errors. They are listed with line numbers"
            if wrong > 1
            else "one error. It is listed with its line number"
        )
        said = f"{begun.draft.name} is a draft with {many}."
        messages.warning(request, said)
    return _redirect_to_draft(request, begun, quiet=bool(wrong))


def _reader(
    request: HttpRequest, form: ImportForm, status: int, *, taken: bool = False, source: str | None = None
) -> HttpResponse:
    text = str(form.data.get("source", "")) if source is None else source
    shown = {"form": form, "text": text, "taken": taken, "most_kb": BYTES_MAX // 1024}
    return render(request, "drafts/import.html", shown, status=status)


# -- copies ------------------------------------------------------------------------------------------------------------


@require_POST
def duplicate(request: HttpRequest, name: str) -> HttpResponse:
    """Copy a fabric, or one of its revisions, to a draft under another name. 409: the name is taken. 422: invalid
    name.
    """
    actor, form = find_actor(request.user), DuplicateForm(request.POST)
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
        return fabrics.show_fabric(
            request, seen, pinned=number is not None, refused=said, status=errors.STATUS[refusal.code]
        )
    return _redirect_to_draft(request, begun)


def _redirect_to_draft(request: HttpRequest, begun: NewDraft, *, quiet: bool = False) -> HttpResponse:
    for note in begun.notes:
        messages.info(request, f"{note}.")
    if begun.replaced:
        messages.success(request, "Your draft was overwritten. Undo restores the old text.")
    elif not quiet:
        messages.success(request, f"{begun.draft.name} is a draft. Nothing runs until you publish it.")
    return redirect("fabric-draft", name=begun.draft.name)
