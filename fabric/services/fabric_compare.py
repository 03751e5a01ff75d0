"""Fabrics held against each other: two contents by path and as text, and what a publication would change before it is one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from difflib import unified_diff

from django.db.models import Max

from fabric.core.actor import Actor
from fabric.core.roles import Right
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.models import Fabric, Revision
from fabric.selectors.fabrics import revision_get
from fabric.selectors.reach import seen_by
from fabric.selectors.revision_diff import Change, spec_changes
from fabric.services.fabric_yaml import fabric_dump, fabric_read
from fabric.services.fabrics import Published, Stored, checked, outcome, second_person, unexpected
from fabric.services.rights import right_wanted


@dataclass(frozen=True, slots=True)
class Side:
    """One of two fabrics that are compared."""

    called: str
    """``small@2``, or the name of its file."""
    spec: FabricSpec


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two fabrics differ."""

    before: Side
    after: Side
    changes: tuple[Change, ...]

    @property
    def same(self) -> bool:
        """Whether both are the same content; comments and layout do not count."""
        return not self.changes

    def text(self) -> str:
        """The difference of both written out, as a unified diff; empty where there is none."""
        old, new = (fabric_dump(side.spec).splitlines(keepends=True) for side in (self.before, self.after))
        return "".join(unified_diff(old, new, self.before.called, self.after.called))


def side_of(actor: Actor, name: str, number: int | None = None) -> Side:
    """A published fabric, or one of its revisions. Raises Refused not_found or conflict."""
    page = revision_get(actor, name, number)
    return Side(f"{page.fabric.name}@{page.number}", page.spec)


def compared(before: Side, after: Side) -> Comparison:
    """Two fabrics, compared by path."""
    return Comparison(before, after, spec_changes(before.spec, after.spec))


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a publication would do. Nothing was changed."""

    published: Published
    """As the publication would say it."""
    new: bool
    """Whether the revision would be made; False: a revision of this content is there."""
    changes: tuple[Change, ...]
    """Against what is published now; empty where nothing is, or it is the same."""
    second: tuple[Tier, ...] = ()
    """The tiers for whose sake a second person has to agree; empty: none has to."""


def fabric_dry_run(
    *, actor: Actor, source: str, origin: str = "", providers: Collection[str] = (), expect: int | None = None
) -> DryRun:
    """Judges a fabric as its publication would and says what that would change. Raises Refused as ``fabric_publish`` does."""
    right_wanted(actor, Right.EDIT, "publish fabrics", anywhere=True)
    read = fabric_read(source, origin=origin)
    right_wanted(actor.at(read.spec.name), Right.EDIT, "publish fabrics")
    checked(actor, read, providers)
    name, digest = read.spec.name, read.spec.digest()
    fabric = Fabric.objects.filter(seen_by(actor, Fabric), name=name).select_related("published").first()
    standing = fabric.published if fabric else None
    revisions = Revision.objects.filter(fabric=fabric) if fabric else Revision.objects.none()
    there = revisions.filter(digest=digest).first()
    number = there.number if there else (revisions.aggregate(last=Max("number"))["last"] or 0) + 1
    was = standing.number if standing else None
    changed = standing is None or standing.digest != digest
    if changed and expect is not None and expect != (was or 0):
        raise unexpected(name, expect, was)
    changes = spec_changes(side_of(actor, name).spec, read.spec) if standing and changed else ()
    rewritten = there is not None and bool(there.source) and there.source != source
    second = second_person(actor, read.spec) if changed else ()
    return DryRun(outcome(actor, read, Stored(number, changed, was, rewritten)), there is None, changes, second)
