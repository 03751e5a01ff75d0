"""Publishing fabrics: YAML in, a frozen revision out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Max

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.second_person import second_wanted
from fabric.core.texts.text import clean_text
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.models import Fabric, Revision, Workspace
from fabric.program.name import program
from fabric.runtime.spending.shares import published_caps
from fabric.selectors.fabrics.lookup import revision_get
from fabric.selectors.reach import match_visible
from fabric.services.actors import find_people
from fabric.services.acts import audit_record
from fabric.services.budgets.caps import caps_publish
from fabric.services.errors import Refused
from fabric.services.fabrics.publication.rules import Deviation, deviations, publication_problems, publication_warnings
from fabric.services.fabrics.yaml.document import FabricProblem, FabricSource, fabric_read, refusal
from fabric.services.fabrics.yaml.export import export_revision
from fabric.services.installation import facts as here
from fabric.services.notifications.change_mail import changes_passed_over
from fabric.services.rights import right_wanted

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class PublishedFabric:
    """A fabric after its publication."""

    name: str
    title: str
    number: int
    digest: str
    changed: bool
    """False: this content was the published revision already."""
    was: int | None = None
    """Number of the revision published before; None: there was none."""
    rewritten: bool = False
    """True if the content existed and now has another text: its comments or its layout differ."""
    deviations: tuple[Deviation, ...] = ()
    """Cells that are laxer than required, with the author's reasons."""
    warnings: tuple[str, ...] = ()
    """Parts that are described and never used, one sentence each."""


@dataclass(frozen=True, slots=True)
class PublicationTerms:
    """Conditions of a publication besides its content."""

    author: str = ""
    """Author of a change that a second person publishes; empty: the actor's own, without an approval."""
    request: str = ""
    """Id of the approved change request."""
    message: str = ""
    """Reason for the change, which its version shows."""
    also: Callable[[Revision], None] | None = None
    """Called in the publishing transaction; a Refused of it cancels the publication."""


NO_TERMS = PublicationTerms()
MESSAGE_CHARS_MAX = 4_000


def clean_message(given: str, field: str) -> str:
    """Return a message as it is stored. Raises Refused too_large."""
    said = clean_text(given)[0].strip()
    if len(said) > MESSAGE_CHARS_MAX:
        message = f"the {field} has {len(said):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken"
        raise Refused(message, code="too_large", field=field)
    return said


def fabric_publish(
    *,
    actor: Actor,
    source: str,
    origin: str = "",
    providers: Collection[str] = (),
    expect: int | None = None,
    message: str = "",
) -> PublishedFabric:
    """Read, judge and publish a fabric. ``source``: YAML text; ``origin``: name of its file, for messages.

    1. ``providers``: the existing provider adapters; without them the names are not checked.
    2. ``expect``: number of the revision that must be published until then; 0: none; None: any.
    3. ``message``: reason for the change, which its version shows.
    4. An identical content creates no revision, but is kept under its last text. An older content becomes the
       published one again.

    Raises Refused forbidden; conflict where another revision is published than expected, and where a second person
    has to approve (``services.drafts.change_requests``); invalid or too_large, with every problem in ``problems``.
    """
    right_wanted(actor, Right.EDIT, "publish fabrics", anywhere=True)
    terms = PublicationTerms(message=clean_message(message, "message"))
    read = fabric_read(source, origin=origin)
    return fabric_publish_read(actor=actor, read=read, providers=providers, expect=expect, terms=terms)


def fabric_publish_read(
    *,
    actor: Actor,
    read: FabricSource,
    providers: Collection[str] = (),
    expect: int | None = None,
    terms: PublicationTerms = NO_TERMS,
) -> PublishedFabric:
    """Judge and publish a fabric that was read already. Raises Refused forbidden, conflict or invalid, and the
    errors of ``terms.also``.
    """
    right_wanted(actor.place_at(read.spec.name), Right.EDIT, "publish fabrics")
    return _publish(actor, read, providers, _PublicationRequest(read.spec, read.text, expect, terms=terms))


def fabric_revert(
    *, actor: Actor, name: str, number: int, providers: Collection[str] = (), expect: int | None = None
) -> PublishedFabric:
    """Publish an older revision of a fabric again, judged anew by today's rules. ``expect``: as for
    ``fabric_publish``.

    It keeps its number, since a revision is known by its content. Raises Refused forbidden, not_found, conflict or
    invalid.
    """
    right_wanted(actor.place_at(name), Right.EDIT, "publish fabrics")
    page = revision_get(actor, name, number)
    read = fabric_read(export_revision(page), origin=f"{page.spec.name}@{page.number}")
    return _publish(actor, read, providers, _PublicationRequest(read.spec, page.source, expect, Act.FABRIC_REVERTED))


def check_publication(actor: Actor, read: FabricSource, providers: Collection[str] = ()) -> None:
    """Judges a fabric as its publication does. Raises Refused invalid, with every problem."""
    where = here.installation(
        providers, people=find_people(actor.workspace_id, read.spec.name), workspace_id=actor.workspace_id
    )
    if problems := publication_problems(read.spec, where):
        raise refusal(problems, read.tree, read.origin)


def _publish(
    actor: Actor, read: FabricSource, providers: Collection[str], asked: _PublicationRequest
) -> PublishedFabric:
    check_publication(actor, read, providers)
    return outcome(actor, read, _store_publication(actor, asked))


def outcome(actor: Actor, read: FabricSource, stood: StoredPublication) -> PublishedFabric:
    """Return the report of a publication."""
    spec = read.spec
    warnings: list[FabricProblem] = publication_warnings(
        spec, here.installation(people=find_people(actor.workspace_id, spec.name))
    )
    return PublishedFabric(
        name=spec.name,
        title=spec.title,
        number=stood.number,
        digest=spec.digest(),
        changed=stood.changed,
        was=stood.was,
        rewritten=stood.rewritten,
        deviations=tuple(deviations(spec)),
        warnings=tuple(read.describe_problem(problem) for problem in warnings),
    )


def drilled_publish(*, actor: Actor, spec: FabricSpec) -> int:
    """Publish a drill's version of a fabric that was judged at its own publication, and return the revision's
    number.

    Raises Refused forbidden in any workspace but one of drills, since people start no runs of such a fabric.
    """
    _require_drills(actor)
    return _store_publication(actor, _PublicationRequest(spec, drill=True)).number


def drilled_withdraw(*, actor: Actor, name: str) -> bool:
    """Withdraw a drill's publication, so that no further run of it can start. Returns False if it was withdrawn
    before, or never published.
    """
    _require_drills(actor)
    rows = Fabric.objects.filter(match_visible(actor, Fabric), name=name, published__isnull=False)
    with transaction.atomic():
        withdrawn = bool(rows.update(published=None))
        if withdrawn:
            audit_record(actor=actor, act=Act.FABRIC_WITHDRAWN, subject=name)
    return withdrawn


def _require_drills(actor: Actor) -> None:
    if not Workspace.objects.filter(id=actor.workspace_id, drills_of__isnull=False).exists():
        message = "a fabric in the hands of a drill belongs into the workspace of drills, and this is another"
        raise Refused(message, code="forbidden", field="actor")


@dataclass(frozen=True, slots=True)
class _PublicationRequest:
    """Content to publish, with its conditions."""

    spec: FabricSpec
    source: str = ""
    expect: int | None = None
    act: Act = Act.FABRIC_PUBLISHED
    terms: PublicationTerms = NO_TERMS
    drill: bool = False
    """True for a drill's fabric, which needs no approval."""


@dataclass(frozen=True, slots=True)
class StoredPublication:
    """Result of storing a publication."""

    number: int
    changed: bool
    was: int | None
    rewritten: bool


def _store_publication(actor: Actor, asked: _PublicationRequest) -> StoredPublication:
    """Store a publication. If two come at once, one of them tries again."""
    for attempt in range(ATTEMPTS):
        try:
            with transaction.atomic():
                return _store(actor, asked)
        except IntegrityError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def revision_ensure(*, workspace_id: str, spec: FabricSpec, by: str = "") -> tuple[Fabric, Revision]:
    """Return the fabric of that name and its revision with exactly this content, and create those that are missing.
    Nothing is published.

    ``by``: author of the revision. Runs in the caller's transaction. Raises IntegrityError where another transaction
    creates the next revision at this moment.
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


def _store(actor: Actor, asked: _PublicationRequest) -> StoredPublication:
    spec, terms = asked.spec, asked.terms
    by = terms.author or actor.name
    fabric, revision = revision_ensure(workspace_id=actor.workspace_id, spec=spec, by=by)
    was_id = fabric.published_id
    was, was_spec = _published_content(was_id)
    rewritten = _source_kept(revision, asked)
    if was_id == revision.id:
        return StoredPublication(revision.number, False, was, rewritten)
    if asked.expect is not None and asked.expect != (was or 0):
        raise refuse_unexpected(spec.name, asked.expect, was)
    if not (terms.author or asked.drill) and (tiers := second_wanted(was_spec, spec)):
        raise alone(spec.name, tiers)
    # Read from the row to be written: another publication may wait for its commit, and may need a second person.
    if not Fabric.objects.filter(id=fabric.id, published_id=was_id).update(published=revision, title=spec.title):
        if asked.expect is None:
            raise IntegrityError("another person published at the same moment")
        raise refuse_unexpected(spec.name, asked.expect, was)
    caps_publish(workspace_id=actor.workspace_id, caps=published_caps(fabric.id, spec.policy))
    told = {"revision": revision.number, "digest": revision.digest, "was": was}
    agreed = {"author": terms.author or None, "request": terms.request or None}
    audit_record(actor=actor, act=asked.act, subject=spec.name, **told, **agreed)
    if terms.message:
        Revision.objects.filter(id=revision.id).update(message=terms.message)
    if terms.also is not None:
        terms.also(revision)
    if not asked.drill:
        changes_passed_over(actor=actor, name=spec.name, before=was_id, revision=revision)
    return StoredPublication(revision.number, True, was, rewritten)


def _published_content(revision_id: str | None) -> tuple[int | None, JSON]:
    """Return number and stored spec of the published revision; None where there is none."""
    found = Revision.objects.filter(id=revision_id).values_list("number", "spec").first() if revision_id else None
    return (found[0], json.loads(found[1])) if found else (None, None)


def second_person(actor: Actor, spec: FabricSpec) -> tuple[Tier, ...]:
    """Return the tiers that require a second person's approval of this content now. One statement."""
    rows = Fabric.objects.filter(match_visible(actor, Fabric), name=spec.name, published__isnull=False)
    stored = rows.values_list("published__spec", flat=True).first()
    return second_wanted(json.loads(stored) if stored else None, spec)


def alone(name: str, tiers: Collection[Tier]) -> Refused:
    """Return the Refused for one person who would publish a change that two must approve."""
    named = " and ".join(tier.replace("_", "-") for tier in tiers)
    message = f"each change of fabric {name!r} needs two people, because its runs in tier {named} have four eyes: open a request with {program()} fabric publish FILE --request or on the draft's page, and a second person approves it"
    return Refused(message, code="conflict", field="request")


def refuse_unexpected(name: str, expect: int, was: int | None) -> Refused:
    """Return the Refused for a published revision other than expected; 0: none."""
    stands = "another one" if (was or 0) == expect else f"revision {was}" if was else "none"
    awaited = f"revision {expect}" if expect else "none"
    message = f"fabric {name!r} has {stands} published, and {awaited} was expected; look at what changed meanwhile, and publish again"
    return Refused(message, code="conflict", field="expect_revision")


def _source_kept(revision: Revision, asked: _PublicationRequest) -> bool:
    """Store a text with the revision that it reads back as; return True if it had another one."""
    if not asked.source or asked.source == revision.source:
        return False
    if FabricSpec.model_validate_json(revision.spec) != asked.spec:
        return False
    before, revision.source = revision.source, asked.source
    revision.save(update_fields=["source"])
    return bool(before)
