"""Compares fabrics: two contents by path and as text, and a publication with its result before it is carried out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from difflib import unified_diff

from django.db.models import Max

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.models import Fabric, Revision
from fabric.selectors.fabrics.differences import SpecChange, spec_changes
from fabric.selectors.fabrics.lookup import revision_get
from fabric.selectors.reach import match_visible
from fabric.services.fabrics.revisions import (
    PublishedFabric,
    StoredPublication,
    check_publication,
    outcome,
    refuse_unexpected,
    second_person,
)
from fabric.services.fabrics.yaml.document import fabric_dump, fabric_read
from fabric.services.rights import right_wanted


@dataclass(frozen=True, slots=True)
class ComparedFabric:
    """One of two fabrics that are compared."""

    called: str
    """``small@2``, or the name of its file."""
    spec: FabricSpec


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between two fabrics."""

    before: ComparedFabric
    after: ComparedFabric
    changes: tuple[SpecChange, ...]

    @property
    def same(self) -> bool:
        """True if both have one content; comments and layout do not count."""
        return not self.changes

    def text(self) -> str:
        """Return the difference of both written out, as a unified diff; empty where there is none."""
        old, new = (fabric_dump(side.spec).splitlines(keepends=True) for side in (self.before, self.after))
        return "".join(unified_diff(old, new, self.before.called, self.after.called))


def build_side(actor: Actor, name: str, number: int | None = None) -> ComparedFabric:
    """Return a published fabric, or one of its revisions, as a side. Raises Refused not_found or conflict."""
    page = revision_get(actor, name, number)
    return ComparedFabric(f"{page.fabric.name}@{page.number}", page.spec)


def compare_sides(before: ComparedFabric, after: ComparedFabric) -> Comparison:
    """Compare two fabrics by path."""
    return Comparison(before, after, spec_changes(before.spec, after.spec))


@dataclass(frozen=True, slots=True)
class DryRun:
    """Effect of a publication that was not carried out."""

    published: PublishedFabric
    """Result as the publication would return it."""
    new: bool
    """True if a revision would be created; False: a revision of this content exists."""
    changes: tuple[SpecChange, ...]
    """Changes against the published revision; empty where none is published or nothing differs."""
    second: tuple[Tier, ...] = ()
    """Tiers that require an approval by a second person."""


def fabric_dry_run(
    *, actor: Actor, source: str, origin: str = "", providers: Collection[str] = (), expect: int | None = None
) -> DryRun:
    """Judge a fabric as its publication would, and return the effect. Raises Refused as ``fabric_publish`` does."""
    right_wanted(actor, Right.EDIT, "publish fabrics", anywhere=True)
    read = fabric_read(source, origin=origin)
    right_wanted(actor.place_at(read.spec.name), Right.EDIT, "publish fabrics")
    check_publication(actor, read, providers)
    name, digest = read.spec.name, read.spec.digest()
    fabric = Fabric.objects.filter(match_visible(actor, Fabric), name=name).select_related("published").first()
    standing = fabric.published if fabric else None
    revisions = Revision.objects.filter(fabric=fabric) if fabric else Revision.objects.none()
    there = revisions.filter(digest=digest).first()
    number = there.number if there else (revisions.aggregate(last=Max("number"))["last"] or 0) + 1
    was = standing.number if standing else None
    changed = standing is None or standing.digest != digest
    if changed and expect is not None and expect != (was or 0):
        raise refuse_unexpected(name, expect, was)
    changes = spec_changes(build_side(actor, name).spec, read.spec) if standing and changed else ()
    rewritten = there is not None and bool(there.source) and there.source != source
    second = second_person(actor, read.spec) if changed else ()
    return DryRun(
        outcome(actor, read, StoredPublication(number, changed, was, rewritten)), there is None, changes, second
    )
