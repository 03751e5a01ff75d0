"""How a draft begins: from a template, as the copy of a fabric, or as somebody's file. What a file says wrong is kept and said, never refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from django.db import transaction

from fabric.core.actor import Actor
from fabric.core.roles import Right
from fabric.models import Draft, Fabric
from fabric.selectors.drafts import DraftView, draft_get
from fabric.selectors.fabrics import revision_get
from fabric.selectors.reach import seen_by
from fabric.services import drafts
from fabric.services.errors import Refused
from fabric.services.fabric_templates import template_begun, template_get
from fabric.services.fabric_text import exported
from fabric.services.publication import Installation
from fabric.services.rights import right_wanted
from fabric.services.yaml_edit import EditProblem, Put, text_edited
from fabric.services.yaml_tree import YamlProblem, read_yaml

JSON = Any
FREE_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Beginning:
    """A draft that has begun."""

    draft: DraftView
    notes: tuple[str, ...] = ()
    """What is to be said of it, a sentence each."""
    replaced: bool = False
    """Whether it took the place of a draft's text, which can be undone."""


def draft_from_template(
    *, actor: Actor, template: str, where: Installation, name: str = "", title: str = ""
) -> Beginning:
    """A draft with a template's text. ``name``: empty for the template's own, or that with a number where it is taken.

    Raises Refused forbidden; not_found for a template that there is not; invalid for a name; conflict for one that is taken.
    """
    right_wanted(actor, Right.EDIT, drafts.EDITING, anywhere=True)
    found = template_get(template)
    named = drafts.name_wanted(name) if name.strip() else _free(actor, found.name)
    _new(actor, named)
    begun = template_begun(found, where, name=named, title=title.strip())
    return Beginning(drafts.draft_begin(actor=actor, name=named, text=begun.text), begun.notes)


def draft_duplicate(*, actor: Actor, name: str, to: str, number: int | None = None) -> Beginning:
    """A draft of another fabric with the text of this one, or of one of its versions. Raises Refused forbidden, not_found, invalid, conflict."""
    right_wanted(actor, Right.EDIT, drafts.EDITING, anywhere=True)
    page, named = revision_get(actor, name, number), drafts.name_wanted(to)
    _new(actor, named)
    title = f"{page.spec.title} (copy)"
    text = text_edited(exported(page), [Put(("name",), named), Put(("title",), title)])
    return Beginning(drafts.draft_begin(actor=actor, name=named, text=text))


def draft_import(*, actor: Actor, text: str, name: str = "", origin: str = "", replace: bool = False) -> Beginning:
    """A draft with a text, whatever it says. ``name``: empty for the one that the text says, else that of its file, ``origin``.

    Of a published fabric it is a draft over what is published. ``replace``: a draft that there is gets the text, as a step that can be undone.
    Raises Refused forbidden; too_large; invalid for what is no text or for a name that none can have; conflict where there is a draft.
    """
    right_wanted(actor, Right.EDIT, drafts.EDITING, anywhere=True)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    drafts.whole(text)
    named = drafts.name_wanted(name if name.strip() else _name_in(text, origin))
    text = _named(text, named) if name.strip() else text
    what = f"{origin[:80] or 'a file'} was imported"
    actor = actor.at(named)
    right_wanted(actor, Right.EDIT, drafts.EDITING)
    with transaction.atomic():
        there = Draft.objects.filter(seen_by(actor, Draft), name=named, author=actor.name).exists()
        if there and not replace:
            message = f"{actor.name} has a draft of {named!r} already: give another name, or have its text replaced, which can be undone"
            raise Refused(message, code="conflict", field="name")
        if there:
            found = draft_get(actor, named)
        elif _published(actor, named):
            found = drafts.draft_of_fabric(actor=actor, name=named)
        else:
            return Beginning(drafts.draft_begin(actor=actor, name=named, text=text))
        found = drafts.draft_replace(actor=actor, name=named, step=found.step, text=text, what=what)
    return Beginning(found, replaced=there)


# -- names -------------------------------------------------------------------------------------------------------------


def _new(actor: Actor, name: str) -> None:
    if _published(actor, name):
        message = f"a fabric {name!r} is published already: give another name, or edit that one on its page"
        raise Refused(message, code="conflict", field="name")


def _published(actor: Actor, name: str) -> bool:
    return Fabric.objects.filter(seen_by(actor, Fabric), name=name, published__isnull=False).exists()


def _free(actor: Actor, name: str) -> str:
    """The name, or the first with a number behind it that neither a fabric nor a draft of the actor's has."""
    everybodys = Fabric.objects.filter(workspace_id=actor.workspace_id)
    taken = {*everybodys.filter(name__startswith=name).values_list("name", flat=True)}
    own = Draft.objects.filter(seen_by(actor, Draft), author=actor.name, name__startswith=name)
    taken |= {*own.values_list("name", flat=True)}
    numbered = (f"{name}-{n}" for n in range(2, FREE_MAX))
    return next((one for one in (name, *numbered) if one not in taken), name)


def _name_in(text: str, origin: str) -> str:
    """The name that a text says, or else that of its file. Raises Refused invalid where neither is one."""
    tree, problem = _read(text)
    for one in (tree.get("name"), PurePath(origin.replace("\\", "/")).stem):
        if isinstance(one, str) and drafts.is_name(one):
            return one
    whose = "the text"
    if problem is not None:
        where = f"line {problem.mark.line}, column {problem.mark.column}: " if problem.mark else ""
        whose = f"the text cannot be read ({where}{problem}), so it"
    message = f"{whose} says no name that a fabric can have, nor does its file: give one"
    raise Refused(message, code="invalid", field="name")


def _named(text: str, name: str) -> str:
    """The text under that name, where it is one that has fields."""
    if not _read(text)[0]:
        return text
    try:
        return text_edited(text, [Put(("name",), name)])
    except (EditProblem, YamlProblem):
        return text


def _read(text: str) -> tuple[Mapping[str, JSON], YamlProblem | None]:
    """The fields that a text has, none where it has no fields or cannot be read; and why it cannot."""
    try:
        found = read_yaml(text).value
    except YamlProblem as problem:
        return {}, problem
    return (found if isinstance(found, dict) else {}), None
