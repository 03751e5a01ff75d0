"""Begins drafts from a template, as the copy of a fabric, or from a file. Errors of a file are kept and shown, never
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from django.db import transaction

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.values.units import JSON
from fabric.models import Draft, Fabric
from fabric.selectors.drafts.lookup import DraftView, draft_get
from fabric.selectors.fabrics.lookup import revision_get
from fabric.selectors.reach import match_visible
from fabric.services.drafts import changes as drafts
from fabric.services.errors import Refused
from fabric.services.fabrics.templates import template_begun, template_get
from fabric.services.fabrics.yaml.edits import EditProblem, PutEdit, text_edited
from fabric.services.fabrics.yaml.export import export_revision
from fabric.services.fabrics.yaml.tree import YamlProblem, read_yaml
from fabric.services.installation.facts import InstallationFacts
from fabric.services.rights import right_wanted

FREE_MAX = 1_000


@dataclass(frozen=True, slots=True)
class NewDraft:
    """A new draft."""

    draft: DraftView
    notes: tuple[str, ...] = ()
    """Notes for the author, one sentence each."""
    replaced: bool = False
    """True if the text replaced that of a draft, which can be undone."""


def draft_from_template(
    *, actor: Actor, template: str, where: InstallationFacts, name: str = "", title: str = ""
) -> NewDraft:
    """Begin a draft with a template's text. ``name``: empty for the template's own, or that with a number where it
    is taken.

    Raises Refused forbidden; not_found for an unknown template; invalid for a name; conflict for a name that is
    taken.
    """
    right_wanted(actor, Right.EDIT, drafts.EDITING, anywhere=True)
    found = template_get(template)
    named = drafts.name_wanted(name) if name.strip() else _free(actor, found.name)
    _new(actor, named)
    begun = template_begun(found, where, name=named, title=title.strip())
    return NewDraft(drafts.draft_begin(actor=actor, name=named, text=begun.text), begun.notes)


def draft_duplicate(*, actor: Actor, name: str, to: str, number: int | None = None) -> NewDraft:
    """Begin a draft of another fabric with the text of this one, or of one of its versions.

    Raises Refused forbidden, not_found, invalid, conflict.
    """
    right_wanted(actor, Right.EDIT, drafts.EDITING, anywhere=True)
    page, named = revision_get(actor, name, number), drafts.name_wanted(to)
    _new(actor, named)
    title = f"{page.spec.title} (copy)"
    text = text_edited(export_revision(page), [PutEdit(("name",), named), PutEdit(("title",), title)])
    return NewDraft(drafts.draft_begin(actor=actor, name=named, text=text))


def draft_import(*, actor: Actor, text: str, name: str = "", origin: str = "", replace: bool = False) -> NewDraft:
    """Begin a draft with any text. ``name``: empty for the name in the text, else that of its file, ``origin``.

    For a published fabric, the draft changes the published revision. ``replace``: an existing draft gets the text, as
    a step that can be undone. Raises Refused forbidden; too_large; invalid for input that is no text or a name that
    no fabric can have; conflict where a draft exists.
    """
    right_wanted(actor, Right.EDIT, drafts.EDITING, anywhere=True)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    drafts.whole(text)
    named = drafts.name_wanted(name if name.strip() else _name_in(text, origin))
    text = _rename_text(text, named) if name.strip() else text
    what = f"{origin[:80] or 'a file'} was imported"
    actor = actor.place_at(named)
    right_wanted(actor, Right.EDIT, drafts.EDITING)
    with transaction.atomic():
        there = Draft.objects.filter(match_visible(actor, Draft), name=named, author=actor.name).exists()
        if there and not replace:
            message = f"{actor.name} has a draft of {named!r} already: give another name, or have its text replaced, which can be undone"
            raise Refused(message, code="conflict", field="name")
        if there:
            found = draft_get(actor, named)
        elif _is_published(actor, named):
            found = drafts.draft_of_fabric(actor=actor, name=named)
        else:
            return NewDraft(drafts.draft_begin(actor=actor, name=named, text=text))
        found = drafts.draft_replace(actor=actor, name=named, step=found.step, text=text, what=what)
    return NewDraft(found, replaced=there)


# -- names -------------------------------------------------------------------------------------------------------------


def _new(actor: Actor, name: str) -> None:
    if _is_published(actor, name):
        message = f"a fabric {name!r} is published already: give another name, or edit that one on its page"
        raise Refused(message, code="conflict", field="name")


def _is_published(actor: Actor, name: str) -> bool:
    return Fabric.objects.filter(match_visible(actor, Fabric), name=name, published__isnull=False).exists()


def _free(actor: Actor, name: str) -> str:
    """Return the name, or its first numbered form that neither a fabric nor a draft of the actor has."""
    of_workspace = Fabric.objects.filter(workspace_id=actor.workspace_id)
    taken = {*of_workspace.filter(name__startswith=name).values_list("name", flat=True)}
    own = Draft.objects.filter(match_visible(actor, Draft), author=actor.name, name__startswith=name)
    taken |= {*own.values_list("name", flat=True)}
    numbered = (f"{name}-{n}" for n in range(2, FREE_MAX))
    return next((one for one in (name, *numbered) if one not in taken), name)


def _name_in(text: str, origin: str) -> str:
    """Return the name in a text, else the one of its file. Raises Refused invalid where neither is a name."""
    tree, problem = _read(text)
    for one in (tree.get("name"), PurePath(origin.replace("\\", "/")).stem):
        if isinstance(one, str) and drafts.is_name(one):
            return one
    message = "neither the text nor its file has a name for the fabric: give one"
    if problem is not None:
        where = f"line {problem.mark.line}, column {problem.mark.column}: " if problem.mark else ""
        message = f"the text cannot be read ({where}{problem}), and its file has no name for the fabric: give one"
    raise Refused(message, code="invalid", field="name")


def _rename_text(text: str, name: str) -> str:
    """Return the text under that name, if it has fields."""
    if not _read(text)[0]:
        return text
    try:
        return text_edited(text, [PutEdit(("name",), name)])
    except (EditProblem, YamlProblem):
        return text


def _read(text: str) -> tuple[Mapping[str, JSON], YamlProblem | None]:
    """Return the fields of a text, and the reason if it cannot be read."""
    try:
        found = read_yaml(text).value
    except YamlProblem as problem:
        return {}, problem
    return (found if isinstance(found, dict) else {}), None
