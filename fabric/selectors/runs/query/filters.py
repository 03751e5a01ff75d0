"""From a query to SQL: one row a field. Where an index is partial, the filter repeats the index's own condition, or it
would not be used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q
from django.db.models import Value as Literal

from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.values.flow import TERMINAL
from fabric.models import Priority, Run
from fabric.models.runs.run import ASKED_FOR, BAD, BAD_STATES, IN_SESSION, LIVE, TROUBLED
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.runs.labels import find_labelled, match_labelled
from fabric.selectors.runs.lookup import WAITS
from fabric.selectors.runs.punctuality import PUNCTUALITY, find_timed_reviews
from fabric.selectors.runs.query.grammar import FIELDS, Query, Term
from fabric.selectors.runs.query.values import Bounds, LabelAsked, Value

Ids = Mapping[str, str]
"""A workspace's fabrics: id by name."""

ID_CHARS = 36
TAIL_CHARS = 12
"""The list shows the last so many digits of an id, and they can be looked for."""


NAMES_CHILDREN = frozenset({"parent", "id"})
"""Fields that child runs are looked for by. Without one of them the list has none: a run stands for all that it
spawned.
"""


def condition(query: Query, fabrics: Ids, workspace_id: str) -> Q:
    """Return the query's condition on runs, beginning with the workspace."""
    whole = Q(workspace_id=workspace_id)
    below = any(term.field in NAMES_CHILDREN and not term.negated for term in query.terms)
    if not below:
        whole &= ASKED_FOR
    for term in query.terms:
        asked = BUILD[term.field](term.value, fabrics, workspace_id)
        if isinstance(term.value, LabelAsked) and (below or term.negated):
            # PostgreSQL turns no NOT IN around; and a child run has its root's labels.
            asked = Q(match_labelled(term.value.key, term.value.value))
        # A negated term keeps no word of an index: those are conditions of their own.
        whole &= ~asked if term.negated else asked & _index_words(term)
        whole &= _imply_bound(term)
    return whole


def _index_words(term: Term) -> Q:
    if term.field == "state":
        chosen = set(term.value if isinstance(term.value, tuple) else ())
        if chosen <= set(BAD_STATES):
            return BAD
        return LIVE if not chosen & TERMINAL else Q()
    if term.field == "waits":
        return LIVE
    if term.field in ("fired", "breaker", "failure", "cause"):
        return TROUBLED
    return IN_SESSION if term.field == "session" else Q()


def _imply_bound(term: Term) -> Q:
    """No run ends before it was asked for: an end before an instant bounds the list's own order too."""
    bounds = term.value
    if term.field != "ended" or term.negated or not isinstance(bounds, Bounds) or bounds.high is None:
        return Q()
    return Q(created_at__lt=bounds.high)


def _state(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    return _match_any("state", value)


def _stage(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    return _match_any("stage", value)


def _waits(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    chosen = value if isinstance(value, tuple) else ()
    return reduce(or_, (WAITS[whom] for whom in WAITS if whom in chosen))


def _fired(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    chosen = value if isinstance(value, tuple) else ()
    return reduce(or_, (_match_words("fired", names_text([name])) for name in chosen))


def _breaker(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    text = str(value)
    if text == "*":
        return ~Q(breakers="")
    begins = "\n" if text.partition(":")[0] in tuple(BreakerScope) and ":" in text else ":"
    return _match_words("breakers", begins + (text[:-1] if text.endswith("*") else f"{text}\n"))


def _spent_on(kind: str) -> Callable[[Value, Ids, str], Q]:
    def build(value: Value, fabrics: Ids, workspace_id: str) -> Q:
        text = str(value)
        named = f'"{text[:-1]}' if text.endswith("*") else f'"{text}":'
        # A name stands before a number, so a brace opens the models alone, and they are last.
        around = ('{"agent":{', '"model":{') if kind == "agent" else ('"model":{', "")
        return _match_texts("spent_on", around[0], named, around[1])

    return build


def _failure(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    return _match_any("failure", value)


def _cause(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    return _match_any("cause", value)


def _tier(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    return _match_any("tier", value)


def _priority(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    numbers = {priority.label: priority.value for priority in Priority}
    return Q(priority__in=[numbers[label] for label in value]) if isinstance(value, tuple) else Q()


def _match_any(column: str, value: Value) -> Q:
    chosen = value if isinstance(value, tuple) else ()
    return Q(**{column: chosen[0]}) if len(chosen) == 1 else Q(**{f"{column}__in": list(chosen)})


def _review(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    chosen = value if isinstance(value, tuple) else ()
    asked = reduce(or_, (PUNCTUALITY[name] for name in chosen))
    return Q(Exists(find_timed_reviews().filter(asked, run_id=OuterRef("id"))))


def _fabric(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    name = str(value)
    if name == "*":
        return Q()
    begins = name.removesuffix("*")
    ids = [fabrics[known] for known in fabrics if known == name or (name != begins and known.startswith(begins))]
    return Q(fabric_id=ids[0]) if len(ids) == 1 else Q(fabric_id__in=ids)


def _match_bounds(column: str) -> Callable[[Value, Ids, str], Q]:
    def build(value: Value, fabrics: Ids, workspace_id: str) -> Q:
        bounds, asked = value if isinstance(value, Bounds) else Bounds(), Q()
        if bounds.low is not None:
            asked &= Q(**{f"{column}__gte": bounds.low})
        if bounds.high is not None:
            asked &= Q(**{f"{column}__lt": bounds.high})
        return asked

    return build


def _took(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    """Compared as ``ended < created + length``, so that no column has to be made for it."""
    bounds, asked = value if isinstance(value, Bounds) else Bounds(), Q(ended_at__isnull=False)
    if bounds.low is not None:
        asked &= Q(ended_at__gte=F("created_at") + bounds.low)
    if bounds.high is not None:
        asked &= Q(ended_at__lt=F("created_at") + bounds.high)
    return asked


def _flag(column: str) -> Callable[[Value, Ids, str], Q]:
    def build(value: Value, fabrics: Ids, workspace_id: str) -> Q:
        return Q(**{column: bool(value)})

    return build


def _key(column: str) -> Callable[[Value, Ids, str], Q]:
    def build(value: Value, fabrics: Ids, workspace_id: str) -> Q:
        text = str(value)
        return Q(**{f"{column}__startswith": text[:-1]}) if text.endswith("*") else Q(**{column: text})

    return build


def _id(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    text = str(value)
    begins = Q(id__gte=text, id__lt=f"{text}g")
    if len(text) != TAIL_CHARS or "-" in text:
        return begins
    # Ids alone are looked through: an index holds them, the rows are not read.
    ends = Run.objects.filter(begins | Q(id__endswith=text), workspace_id=workspace_id)
    return Q(id__in=ends.values("id"))


def _parent(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    text = str(value)
    if len(text) == ID_CHARS:
        return Q(parent_run_id=text)
    return Q(parent_run_id__gte=text, parent_run_id__lt=f"{text}g", parent_run_id__isnull=False)


def _label(value: Value, fabrics: Ids, workspace_id: str) -> Q:
    """Labels of runs that a caller requested; their child runs are in ``condition``."""
    asked = value if isinstance(value, LabelAsked) else LabelAsked("", None)
    return Q(id__in=find_labelled(workspace_id, asked.key, asked.value))


class _Contains(Func):
    """Match a text that contains another one, in upper or lower case.

    Django's own says ``UPPER(title) LIKE ...``, of which PostgreSQL has no statistics: it takes every word for a rare
    one and reads the whole table for the fifty newest titles with a common one.
    """

    template = r"%(expressions)s ESCAPE '\'"
    arg_joiner = " LIKE "
    output_field = BooleanField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, arg_joiner=" ILIKE ", **context)


def _match_words(column: str, text: str) -> Q:
    return _match_texts(column, text)


def _match_texts(column: str, *texts: str) -> Q:
    """Return the condition on a column that has these texts one after the other."""
    literals = (re.sub(r"([\\%_])", r"\\\1", text) for text in texts if text)
    return Q(_Contains(F(column), Literal(f"%{'%'.join(literals)}%")))


def _words(column: str) -> Callable[[Value, Ids, str], Q]:
    def build(value: Value, fabrics: Ids, workspace_id: str) -> Q:
        return _match_words(column, str(value))

    return build


BUILD: Mapping[str, Callable[[Value, Ids, str], Q]] = {
    "state": _state,
    "waits": _waits,
    "fabric": _fabric,
    "revision": _match_bounds("revision__number"),
    "stage": _stage,
    "why": _words("reason"),
    "fired": _fired,
    "breaker": _breaker,
    "failure": _failure,
    "cause": _cause,
    "agent": _spent_on("agent"),
    "model": _spent_on("model"),
    "tier": _tier,
    "review": _review,
    "priority": _priority,
    "started": _match_bounds("created_at"),
    "ended": _match_bounds("ended_at"),
    "took": _took,
    "cost": _match_bounds("cost_usd_micros"),
    "tokens": _match_bounds("tokens"),
    "replans": _match_bounds("epoch"),
    "recovered": _flag("recovered"),
    "truncated": _flag("truncated"),
    "session": _key("session_key"),
    "by": _key("created_by"),
    "id": _id,
    "parent": _parent,
    "label": _label,
    "text": _words("title"),
}
"""The condition of each field of ``FIELDS``, before it is turned around."""


def slow_terms(query: Query) -> tuple[Term, ...]:
    """The terms that no index answers: what to look at when an answer took too long."""
    return tuple(
        term
        for term in query.terms
        if not FIELDS[term.field].indexed or term.negated or (isinstance(term.value, str) and term.value.endswith("*"))
    )
