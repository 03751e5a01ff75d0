"""Finds runs, fabrics and reviews by a part of their id or title.

The beginning of an id is looked up by index in all rows. The end of an id and words of a title are searched in the
newest ``SEARCHED_RUNS`` runs; the result states whether there are more. The database does all filtering.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, TypeVar, cast

from django.db.models import Model, Q, QuerySet, TextField, Value
from django.db.models.functions import Coalesce

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.models import Fabric, Review, Run
from fabric.models.runs.run import ASKED_FOR
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.errors import Refused
from fabric.selectors.reach import build_reach_condition, match_visible, read_by
from fabric.selectors.reviews.lookup import list_views
from fabric.selectors.runs.lookup import Waiting

M = TypeVar("M", bound=Model)

GROUP_MAX = 20
"""Largest number of results of a kind; the result states whether there are more."""
QUERY_CHARS_MAX = 200
WORDS_MAX = 8
ID_CHARS_MIN = 4
"""Least length of an id's part: a shorter one would match nearly everything."""
SEARCHED_RUNS = 20_000

_hex = re.compile(r"[0-9a-f-]+")
_DASHES = (8, 12, 16, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHit(Waiting):
    """A run as a result. Instants are microseconds since the epoch, UTC."""

    id: str
    title: str
    state: str
    reason: str
    recovered: bool
    fabric_name: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricHit:
    """A fabric as a result."""

    name: str
    title: str
    number: int | None
    """Number of its published revision; None when none is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewHit:
    """A review as a result."""

    id: str
    run_id: str
    reason: str
    run_title: str
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults:
    """Results of a query, ``GROUP_MAX`` of a kind at most."""

    runs: tuple[RunHit, ...] = ()
    fabrics: tuple[FabricHit, ...] = ()
    reviews: tuple[ReviewHit, ...] = ()
    more: frozenset[str] = frozenset()
    """Names of the groups that have more."""
    bounded: bool = False
    """True if there are older runs whose titles were not searched."""

    @property
    def count(self) -> int:
        """Return the number of these results."""
        return len(self.runs) + len(self.fabrics) + len(self.reviews)


def search(actor: Actor, query: str) -> SearchResults:
    """Return results for a query, of the actor's workspace.

    Raises Refused invalid when it is too long, has too many words or characters that no text has.
    """
    words = _words(query)
    if not words:
        return SearchResults()
    since = _find_oldest_searched(actor)
    runs = _runs(actor, words, since)
    fabrics = _fabrics(actor, words)
    reviews = _reviews(actor, words)
    groups = {"runs": len(runs), "fabrics": len(fabrics), "reviews": len(reviews)}
    return SearchResults(
        runs=tuple(runs[:GROUP_MAX]),
        fabrics=tuple(fabrics[:GROUP_MAX]),
        reviews=tuple(reviews[:GROUP_MAX]),
        more=frozenset(name for name, hits in groups.items() if hits > GROUP_MAX),
        bounded=since > 0,
    )


def _words(query: str) -> list[str]:
    text, changed = clean_text(query)
    if changed:
        raise Refused(
            "the search holds a character that no text has (NUL or half a surrogate pair); type it again",
            code="invalid",
            field="q",
        )
    if len(text) > QUERY_CHARS_MAX:
        raise Refused(
            f"the search has {len(text):,} characters, {QUERY_CHARS_MAX} are looked at; leave some out",
            code="invalid",
            field="q",
        )
    words = text.split()
    if len(words) > WORDS_MAX:
        raise Refused(
            f"the search has {len(words)} words, {WORDS_MAX} are looked at; leave some out", code="invalid", field="q"
        )
    return words


def _find_oldest_searched(actor: Actor) -> int:
    """Return the time at which the newest ``SEARCHED_RUNS`` runs begin; 0 when there are fewer. One step along the
    list's index.
    """
    rows = Run.objects.filter(match_visible(actor, Run)).order_by("-created_at", "id")
    return rows.values_list("created_at", flat=True)[SEARCHED_RUNS - 1 : SEARCHED_RUNS].first() or 0


def _runs(actor: Actor, words: list[str], since: int) -> list[RunHit]:
    """Return runs by id first, then by title, the newest first. Child runs are found by id alone."""
    own = Run.objects.filter(match_visible(actor, Run))
    recent = own.filter(created_at__gte=since)
    looks: list[QuerySet[Run]] = []
    if len(words) == 1 and (part := _part_of_id(words[0])):
        low = _add_dashes(part)
        looks.append(_along_ids(Run.objects.filter(build_reach_condition(actor, Run)), actor, low))
        looks.append(recent.filter(id__endswith=_dashed_from_end(part)).order_by("-created_at", "id"))
    looks.append(
        recent.filter(ASKED_FOR, read_by(actor, Run), _all_words("title", words)).order_by("-created_at", "id")
    )
    found: dict[str, RunHit] = {}
    for look in looks:
        if len(found) <= GROUP_MAX:
            rows = look.values("id", "title", "state", "reason", "recovered", "fabric__name", "created_at")[
                : GROUP_MAX + 1
            ]
            for row in rows:
                given: dict[str, Any] = {**row}
                name = given.pop("fabric__name") or ""
                reads = may_read(actor, name)
                given |= {
                    "title": title_for(row["title"], reads=reads),
                    "reason": line_for(row["reason"], reads=reads),
                }
                found.setdefault(row["id"], RunHit(**given, fabric_name=name))
    return list(found.values())


def _fabrics(actor: Actor, words: list[str]) -> list[FabricHit]:
    rows = Fabric.objects.filter(match_visible(actor, Fabric))
    rows = rows.filter(_all_words("name", words) | _all_words("title", words)).order_by("name")
    shown = rows.values_list("name", "title", "published__number")[: GROUP_MAX + 1]
    return [FabricHit(name=name, title=title, number=number) for name, title, number in shown]


def _reviews(actor: Actor, words: list[str]) -> list[ReviewHit]:
    part = _part_of_id(words[0]) if len(words) == 1 else ""
    if not part:
        return []
    rows = _along_ids(Review.objects.filter(build_reach_condition(actor, Review)), actor, part)
    return [
        ReviewHit(id=one.id, run_id=one.run_id, reason=one.reason, run_title=one.run_title, open=one.open)
        for one in list_views(actor, rows, GROUP_MAX + 1)
    ]


def _along_ids(rows: QuerySet[M], actor: Actor, low: str) -> QuerySet[M]:
    """Return the actor's rows with this beginning of an id. The form of the workspace's condition keeps a planner
    from reading all of its rows instead.
    """
    mine = rows.annotate(theirs=Coalesce("workspace_id", Value(""), output_field=TextField())).filter(
        theirs=actor.workspace_id
    )
    return cast("QuerySet[M]", mine.filter(id__gte=low, id__lt=f"{low}~").order_by("id"))


def _part_of_id(word: str) -> str:
    """Return the word's hexadecimal digits when it can be part of an id; else empty."""
    lowered = word.lower().removeprefix("run-").removeprefix("esc-")
    digits = lowered.replace("-", "")
    return digits if _hex.fullmatch(lowered) and ID_CHARS_MIN <= len(digits) <= 32 else ""


def _add_dashes(digits: str) -> str:
    """Return the beginning of a UUID with its dashes."""
    return "".join(f"-{digit}" if at in _DASHES else digit for at, digit in enumerate(digits))


def _dashed_from_end(digits: str) -> str:
    """Return the end of a UUID with its dashes."""
    first = 32 - len(digits)
    return "".join(f"-{digit}" if at + first in _DASHES and at else digit for at, digit in enumerate(digits))


def _all_words(column: str, words: list[str]) -> Q:
    return reduce(and_, (reduce(or_, (Q(**{f"{column}__icontains": w}) for w in _cases(word))) for word in words))


def _cases(word: str) -> list[str]:
    """Return the spellings to search for: SQLite folds the case of ASCII letters only."""
    return [word] if word.isascii() else list(dict.fromkeys((word, word.lower(), word.upper(), word.capitalize())))
