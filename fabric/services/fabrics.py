"""Publishing fabrics: YAML in, a frozen revision out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.second_person import second_wanted
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.models import Fabric, Revision, Workspace
from fabric.runtime.shares import published
from fabric.selectors.fabrics import revision_get
from fabric.selectors.reach import seen_by
from fabric.services import here
from fabric.services.audit import audit_record
from fabric.services.budgets import caps_publish
from fabric.services.errors import Refused
from fabric.services.fabric_text import exported
from fabric.services.fabric_yaml import Problem, Source, fabric_read, refusal
from fabric.services.notification_changes import changes_passed_over
from fabric.services.publication import Deviation, deviations, publication_problems, publication_warnings
from fabric.services.rights import right_wanted
from fabric.services.workspaces import people_of

JSON = Any
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Published:
    """A fabric as it stands after its publication."""

    name: str
    title: str
    number: int
    digest: str
    changed: bool
    """False: this very content was the published revision already."""
    was: int | None = None
    """Number of the revision that was published before; None: none was."""
    rewritten: bool = False
    """The content was there already, and is kept under another text from now on: its comments or its layout differ."""
    deviations: tuple[Deviation, ...] = ()
    """Cells that are laxer than required, with the author's reasons."""
    warnings: tuple[str, ...] = ()
    """What is described and never used, a sentence each."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a publication is bound to beside the content."""

    author: str = ""
    """Whose change it is, where a second person publishes it; empty: the actor's own, and nobody else has agreed."""
    request: str = ""
    """Id of the change request that was agreed to."""
    also: Callable[[Revision], None] | None = None
    """Done in the transaction that publishes it; a Refused of it calls the publication off."""


NO_TERMS = Terms()


def fabric_publish(
    *, actor: Actor, source: str, origin: str = "", providers: Collection[str] = (), expect: int | None = None
) -> Published:
    """Reads, judges and publishes a fabric. ``source``: YAML text; ``origin``: its file's name, for what is said about it.

    ``providers``: the provider adapters that there are; without them the names are not checked. ``expect``: number of the revision that has to be
    the published one until then, 0: none; None: whatever it is. The same content again is no new revision, but is kept under its last text;
    an older content becomes the published one again. Raises Refused forbidden; conflict where another revision is published than was expected, and
    where a second person has to agree (``services.change_requests``); invalid or too_large, with every problem in ``problems``.
    """
    right_wanted(actor, Right.EDIT, "publish fabrics", anywhere=True)
    read = fabric_read(source, origin=origin)
    return fabric_publish_read(actor=actor, read=read, providers=providers, expect=expect)


def fabric_publish_read(
    *,
    actor: Actor,
    read: Source,
    providers: Collection[str] = (),
    expect: int | None = None,
    terms: Terms = NO_TERMS,
) -> Published:
    """The same of a fabric that was read already. Raises Refused forbidden, conflict or invalid, and what ``terms.also`` raises."""
    right_wanted(actor.at(read.spec.name), Right.EDIT, "publish fabrics")
    return _published(actor, read, providers, _Asked(read.spec, read.text, expect, terms=terms))


def fabric_revert(
    *, actor: Actor, name: str, number: int, providers: Collection[str] = (), expect: int | None = None
) -> Published:
    """Makes an older revision of a fabric the published one again, judged anew by today's rules. ``expect``: as for ``fabric_publish``.

    It keeps its number, since a revision is known by its content. Raises Refused forbidden, not_found, conflict or invalid.
    """
    right_wanted(actor.at(name), Right.EDIT, "publish fabrics")
    page = revision_get(actor, name, number)
    read = fabric_read(exported(page), origin=f"{page.spec.name}@{page.number}")
    return _published(actor, read, providers, _Asked(read.spec, page.source, expect, Act.FABRIC_REVERTED))


def checked(actor: Actor, read: Source, providers: Collection[str] = ()) -> None:
    """Judges a fabric as its publication does. Raises Refused invalid, with every problem."""
    where = here.installation(
        providers, people=people_of(actor.workspace_id, read.spec.name), workspace_id=actor.workspace_id
    )
    if problems := publication_problems(read.spec, where):
        raise refusal(problems, read.tree, read.origin)


def _published(actor: Actor, read: Source, providers: Collection[str], asked: _Asked) -> Published:
    checked(actor, read, providers)
    return outcome(actor, read, _stored(actor, asked))


def outcome(actor: Actor, read: Source, stood: Stored) -> Published:
    """What is said of a publication."""
    spec = read.spec
    warnings: list[Problem] = publication_warnings(
        spec, here.installation(people=people_of(actor.workspace_id, spec.name))
    )
    return Published(
        name=spec.name,
        title=spec.title,
        number=stood.number,
        digest=spec.digest(),
        changed=stood.changed,
        was=stood.was,
        rewritten=stood.rewritten,
        deviations=tuple(deviations(spec)),
        warnings=tuple(read.told(problem) for problem in warnings),
    )


def drilled_publish(*, actor: Actor, spec: FabricSpec) -> int:
    """Publishes what a drill has made of a fabric that was judged when it was published itself; the revision's number.

    Raises Refused forbidden in any workspace but one of drills: what is in a drill's hands is no fabric that people start runs of.
    """
    _of_drills(actor)
    return _stored(actor, _Asked(spec, drill=True)).number


def drilled_withdraw(*, actor: Actor, name: str) -> bool:
    """Takes back the publication of what a drill has made, so that no further run of it can be started. False: it was withdrawn before, or never there."""
    _of_drills(actor)
    rows = Fabric.objects.filter(seen_by(actor, Fabric), name=name, published__isnull=False)
    with transaction.atomic():
        withdrawn = bool(rows.update(published=None))
        if withdrawn:
            audit_record(actor=actor, act=Act.FABRIC_WITHDRAWN, subject=name)
    return withdrawn


def _of_drills(actor: Actor) -> None:
    if not Workspace.objects.filter(id=actor.workspace_id, drills_of__isnull=False).exists():
        message = "a fabric in the hands of a drill belongs into the workspace of drills, and this is another"
        raise Refused(message, code="forbidden", field="actor")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be published, and under which condition."""

    spec: FabricSpec
    source: str = ""
    expect: int | None = None
    act: Act = Act.FABRIC_PUBLISHED
    terms: Terms = NO_TERMS
    drill: bool = False
    """Whether it is a drill's, which nobody has to agree to."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What came of it."""

    number: int
    changed: bool
    was: int | None
    rewritten: bool


def _stored(actor: Actor, asked: _Asked) -> Stored:
    """Stores it. Two publications at once: one of them tries again."""
    for attempt in range(ATTEMPTS):
        try:
            with transaction.atomic():
                return _store(actor, asked)
        except IntegrityError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def revision_ensure(*, workspace_id: str, spec: FabricSpec, by: str = "") -> tuple[Fabric, Revision]:
    """The fabric of that name, and its revision with just this content; both are made where they are not there. Nothing is published.

    ``by``: who made the revision. In the caller's transaction; IntegrityError where somebody else makes the next revision at the same moment.
    """
    digest = spec.digest()
    fabric, _ = Fabric.objects.get_or_create(workspace_id=workspace_id, name=spec.name, defaults={"title": spec.title})
    if (found := Revision.objects.filter(fabric=fabric, digest=digest).first()) is not None:
        return fabric, found
    last = Revision.objects.filter(fabric=fabric).aggregate(last=Max("number"))["last"] or 0
    made = Revision.objects.create(
        workspace_id=workspace_id,
        fabric=fabric,
        number=last + 1,
        digest=digest,
        spec=spec.model_dump_json(by_alias=True),
        published_by=by,
    )
    return fabric, made


def _store(actor: Actor, asked: _Asked) -> Stored:
    spec, terms = asked.spec, asked.terms
    by = terms.author or actor.name
    fabric, revision = revision_ensure(workspace_id=actor.workspace_id, spec=spec, by=by)
    was_id = fabric.published_id
    was, was_spec = _standing(was_id)
    rewritten = _source_kept(revision, asked)
    if was_id == revision.id:
        return Stored(revision.number, False, was, rewritten)
    if asked.expect is not None and asked.expect != (was or 0):
        raise unexpected(spec.name, asked.expect, was)
    if not (terms.author or asked.drill) and (tiers := second_wanted(was_spec, spec)):
        raise alone(spec.name, tiers)
    # Asked of the row that is written as well: another publication may stand before its commit, and may want a second person.
    if not Fabric.objects.filter(id=fabric.id, published_id=was_id).update(published=revision, title=spec.title):
        if asked.expect is None:
            raise IntegrityError("somebody else published at the same moment")
        raise unexpected(spec.name, asked.expect, was)
    caps_publish(workspace_id=actor.workspace_id, caps=published(fabric.id, spec.policy))
    told = {"revision": revision.number, "digest": revision.digest, "was": was}
    agreed = {"author": terms.author or None, "request": terms.request or None}
    audit_record(actor=actor, act=asked.act, subject=spec.name, **told, **agreed)
    if terms.also is not None:
        terms.also(revision)
    if not asked.drill:
        changes_passed_over(actor=actor, name=spec.name, before=was_id, revision=revision)
    return Stored(revision.number, True, was, rewritten)


def _standing(revision_id: str | None) -> tuple[int | None, JSON]:
    """Number and stored spec of what is published; None where nothing is."""
    found = Revision.objects.filter(id=revision_id).values_list("number", "spec").first() if revision_id else None
    return (found[0], json.loads(found[1])) if found else (None, None)


def second_person(actor: Actor, spec: FabricSpec) -> tuple[Tier, ...]:
    """The tiers for whose sake a second person has to agree to publishing this content now; empty: none has to. One statement."""
    rows = Fabric.objects.filter(seen_by(actor, Fabric), name=spec.name, published__isnull=False)
    stored = rows.values_list("published__spec", flat=True).first()
    return second_wanted(json.loads(stored) if stored else None, spec)


def alone(name: str, tiers: Collection[Tier]) -> Refused:
    """The Refused where somebody would publish alone what two have to agree to."""
    named = " and ".join(tier.replace("_", "-") for tier in tiers)
    message = f"two people agree to each change of fabric {name!r}, since its runs in tier {named} have four eyes: open a request, with manage.py fabric publish FILE --request or on the draft's page, and somebody else approves it"
    return Refused(message, code="conflict", field="request")


def unexpected(name: str, expect: int, was: int | None) -> Refused:
    """The Refused where another revision is published than was expected; 0: none."""
    stands = "another one" if (was or 0) == expect else f"revision {was}" if was else "none"
    awaited = f"revision {expect}" if expect else "none"
    message = f"fabric {name!r} has {stands} published, and {awaited} was expected; look at what changed meanwhile, and publish again"
    return Refused(message, code="conflict", field="expect_revision")


def _source_kept(revision: Revision, asked: _Asked) -> bool:
    """Keeps a text with the revision that it reads back as exactly; whether there was another one before."""
    if not asked.source or asked.source == revision.source:
        return False
    if FabricSpec.model_validate_json(revision.spec) != asked.spec:
        return False
    before, revision.source = revision.source, asked.source
    revision.save(update_fields=["source"])
    return bool(before)
