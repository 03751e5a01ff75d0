"""Publishing fabrics: YAML in, a frozen revision out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Max

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.spec import FabricSpec
from fabric.models import Fabric, Revision, Workspace
from fabric.runtime.shares import published
from fabric.services import here
from fabric.services.audit import audit_record
from fabric.services.budgets import caps_publish
from fabric.services.errors import Refused
from fabric.services.fabric_yaml import Problem, Source, fabric_read, refusal
from fabric.services.publication import Deviation, deviations, publication_problems, publication_warnings
from fabric.services.rights import right_wanted
from fabric.services.workspaces import people_of

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
    deviations: tuple[Deviation, ...] = ()
    """Cells that are laxer than required, with the author's reasons."""
    warnings: tuple[str, ...] = ()
    """What is described and never used, a sentence each."""


def fabric_publish(*, actor: Actor, source: str, origin: str = "", providers: Collection[str] = ()) -> Published:
    """Reads, judges and publishes a fabric. ``source``: YAML text; ``origin``: its file's name, for what is said about it.

    ``providers``: the provider adapters that there are; without them the names are not checked. The same content again is no new revision;
    an older content becomes the published one again. Raises Refused forbidden; invalid or too_large, with every problem in ``problems``.
    """
    right_wanted(actor, Right.EDIT, "publish fabrics")
    read = fabric_read(source, origin=origin)
    return fabric_publish_read(actor=actor, read=read, providers=providers)


def fabric_publish_read(*, actor: Actor, read: Source, providers: Collection[str] = ()) -> Published:
    """The same of a fabric that was read already. Raises Refused forbidden or invalid."""
    right_wanted(actor, Right.EDIT, "publish fabrics")
    spec = read.spec
    if problems := publication_problems(spec, here.installation(providers, people=people_of(actor.workspace_id))):
        raise refusal(problems, read.tree, read.origin)
    number, changed = _stored(actor, spec)
    told: list[Problem] = publication_warnings(spec)
    return Published(
        name=spec.name,
        title=spec.title,
        number=number,
        digest=spec.digest(),
        changed=changed,
        deviations=tuple(deviations(spec)),
        warnings=tuple(read.told(problem) for problem in told),
    )


def drilled_publish(*, actor: Actor, spec: FabricSpec) -> int:
    """Publishes what a drill has made of a fabric that was judged when it was published itself; the revision's number.

    Raises Refused forbidden in any workspace but one of drills: what is in a drill's hands is no fabric that people start runs of.
    """
    _of_drills(actor)
    return _stored(actor, spec)[0]


def drilled_withdraw(*, actor: Actor, name: str) -> bool:
    """Takes back the publication of what a drill has made, so that no further run of it can be started. False: it was withdrawn before, or never there."""
    _of_drills(actor)
    rows = Fabric.objects.filter(workspace_id=actor.workspace_id, name=name, published__isnull=False)
    with transaction.atomic():
        withdrawn = bool(rows.update(published=None))
        if withdrawn:
            audit_record(actor=actor, act=Act.FABRIC_WITHDRAWN, subject=name)
    return withdrawn


def _of_drills(actor: Actor) -> None:
    if not Workspace.objects.filter(id=actor.workspace_id, drills_of__isnull=False).exists():
        message = "a fabric in the hands of a drill belongs into the workspace of drills, and this is another"
        raise Refused(message, code="forbidden", field="actor")


def _stored(actor: Actor, spec: FabricSpec) -> tuple[int, bool]:
    """The revision's number, and whether anything changed. Two publications at once: one of them tries again."""
    for attempt in range(ATTEMPTS):
        try:
            with transaction.atomic():
                return _store(actor, spec)
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


def _store(actor: Actor, spec: FabricSpec) -> tuple[int, bool]:
    fabric, revision = revision_ensure(workspace_id=actor.workspace_id, spec=spec, by=actor.name)
    if fabric.published_id == revision.id:
        return revision.number, False
    fabric.published, fabric.title = revision, spec.title
    fabric.save(update_fields=["published", "title"])
    caps_publish(workspace_id=actor.workspace_id, caps=published(fabric.id, spec.policy))
    told = {"revision": revision.number, "digest": revision.digest}
    audit_record(actor=actor, act=Act.FABRIC_PUBLISHED, subject=spec.name, **told)
    return revision.number, True
