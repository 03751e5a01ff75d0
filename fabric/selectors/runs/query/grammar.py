"""The query line of the runs list: ``started:-4h fabric:ledger* -state:cancelled cost:>0.50 card settlements``.

Terms stand apart by white space and all of them must hold. A term is ``field:value``, a word of the title or a
``"phrase"`` of it; a minus before it turns it around. Fields are the table ``FIELDS``; how a value of each kind is read
is ``values.READ``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from difflib import get_close_matches

from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.state.trouble import FIRED
from fabric.core.texts.text import clean_text
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.models import Priority
from fabric.selectors.runs.lookup import WAITS
from fabric.selectors.runs.query.values import READ, Kind, Known, Misread, Value

CHARS_MAX = 500
TERMS_MAX = 20
TEXT = "text"
"""Name of the field of words that stand alone."""
LABEL = "label"
"""Name of the field whose terms name a label's key too: ``label.team=ops``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A word that may stand before a colon."""

    kind: Kind
    means: str
    """Compared value, in words."""
    example: str
    choices: tuple[str, ...] = ()
    sign: str = ":"
    """Sign after the word: a value follows a colon, a label's key a dot."""
    many: bool = False
    """True if a run may have several of them: the field may stand twice."""
    indexed: bool = False
    """True if an index answers a filter on it alone, at any number of runs."""


FIELDS: Mapping[str, Field] = {
    "state": Field(
        kind=Kind.CHOICE,
        means="where the run stands; several with commas",
        example="state:failed,aborted",
        choices=tuple(RunState),
        indexed=True,
    ),
    "waits": Field(
        kind=Kind.CHOICE,
        means="whom it waits for, doing nothing else",
        example="waits:provider",
        choices=tuple(WAITS),
        indexed=True,
    ),
    "fabric": Field(
        kind=Kind.NAME, means="the fabric's name, * for any ending", example="fabric:ledger*", indexed=True
    ),
    "revision": Field(kind=Kind.COUNT, means="the number of the fabric's revision", example="revision:>=3"),
    "stage": Field(
        kind=Kind.CHOICE,
        means="the stage it is in or ended in; several with commas",
        example="stage:fan_out",
        choices=tuple(Stage),
    ),
    "why": Field(kind=Kind.TEXT, means="a word or phrase of its reason", example='why:"retry budget"'),
    "fired": Field(
        kind=Kind.CHOICE,
        means="a protection that fired; several with commas: one of them",
        example="fired:budget,loop",
        choices=FIRED,
        many=True,
        indexed=True,
    ),
    "breaker": Field(
        kind=Kind.BREAKER,
        means="a breaker that refused its calls: scope:name, or a name; * for any ending",
        example="breaker:provider:openai",
        choices=tuple(f"{scope}:*" for scope in BreakerScope),
        many=True,
        indexed=True,
    ),
    "failure": Field(
        kind=Kind.CHOICE,
        means="the row of the decision table that it met last",
        example="failure:cost_overrun",
        choices=tuple(FailureType),
        indexed=True,
    ),
    "cause": Field(
        kind=Kind.CHOICE,
        means="the cause of its last failure",
        example="cause:budget_gate",
        choices=tuple(Cause),
        indexed=True,
    ),
    "agent": Field(
        kind=Kind.KEY, means="an agent that made calls, * for any ending", example="agent:planner", many=True
    ),
    "model": Field(
        kind=Kind.KEY, means="a model that it called, by the fabric's name for it", example="model:fast", many=True
    ),
    "tier": Field(kind=Kind.CHOICE, means="the tier it picked", example="tier:batch", choices=tuple(Tier)),
    "review": Field(
        kind=Kind.CHOICE,
        means="a review of it, by the time of its answer; several with commas",
        example="review:late,expired",
        choices=("in_time", "late", "expired", "overdue", "waiting"),
        many=True,
    ),
    "priority": Field(
        kind=Kind.CHOICE,
        means="how urgently it is claimed",
        example="priority:high,critical",
        choices=tuple(p.label for p in Priority),
    ),
    "started": Field(kind=Kind.INSTANT, means="when it was asked for", example="started:-4h", indexed=True),
    "ended": Field(kind=Kind.INSTANT, means="when it ended", example='ended:"yesterday 20:00..06:00"', indexed=True),
    "took": Field(kind=Kind.SPAN, means="from the request to the end", example="took:>5m"),
    "cost": Field(kind=Kind.MONEY, means="spent so far, dollars", example="cost:>0.50"),
    "tokens": Field(kind=Kind.COUNT, means="tokens so far", example="tokens:>10k"),
    "replans": Field(kind=Kind.COUNT, means="how often it was planned again", example="replans:>0"),
    "recovered": Field(
        kind=Kind.YES_NO,
        means="true for runs that recovered from a failure",
        example="recovered:yes",
        indexed=True,
    ),
    "truncated": Field(
        kind=Kind.YES_NO,
        means="true for runs with an agent that was stopped and answered early",
        example="truncated:yes",
    ),
    "session": Field(
        kind=Kind.KEY, means="the caller's session, * for any ending", example="session:october-close", indexed=True
    ),
    "by": Field(kind=Kind.KEY, means="the person who started it, * for any ending", example="by:owner"),
    "id": Field(
        kind=Kind.ID, means="the beginning of its id, or the twelve digits shown", example="id:019a3c5e", indexed=True
    ),
    "parent": Field(
        kind=Kind.ID,
        means="the run that spawned it",
        example="parent:019a3c5e-4a53-7c1e-9a64-3f7d2b1c0e55",
        indexed=True,
    ),
    LABEL: Field(
        kind=Kind.LABEL,
        means="a label; without = any label with that key",
        example="label.team=ops",
        sign=".",
        many=True,
        indexed=True,
    ),
    TEXT: Field(kind=Kind.TEXT, means="a word or phrase of the title", example='"card settlements"'),
}
"""Every field, by the word before the colon."""
MEANT: Mapping[str, list[str]] = {
    "reason": ["why"],
    "protection": ["fired"],
    "protections": ["fired"],
    "mechanism": ["fired"],
    "row": ["failure"],
    "labels": [LABEL],
    "tag": [LABEL],
}
"""Names that a page gives to a field, and the field itself."""
OF_CONTENTS = frozenset({TEXT, "why"})
"""Fields that compare contents. They match no run for a reader without the right to its contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One condition, and where it stands in the line."""

    field: str
    negated: bool
    value: Value
    written: str
    """The value as it was typed, without quotes."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Query:
    """A line that was understood."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def drop_term(self, term: Term) -> str:
        """The line without one of its terms."""
        return " ".join(self.text[other.start : other.end] for other in self.terms if other is not term)

    def add_term(self, field: str, value: str) -> str:
        """The line with one more term. It replaces an equal one, and others of a field that stands once."""
        new, many = quote_term(field, value), FIELDS[field].many
        kept = (term for term in self.terms if term.field != field or term.negated or (many and term.written != value))
        return " ".join([*(self.text[term.start : term.end] for term in kept), new])


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A line that was not understood: ``text[start:end]`` is what is wrong, and is never empty."""

    text: str
    message: str
    """One sentence: what is wrong and what to write instead."""
    start: int
    end: int
    instead: str = ""
    """The whole line as it was probably meant; empty where there is no guess."""

    @property
    def sentence(self) -> str:
        """The place and the mistake in one sentence, for a reader who does not see the line marked."""
        meant = f"; did you mean {self.instead!r}?" if self.instead else ""
        return f"character {self.start + 1}, {self.wrong[:40]!r}: {self.message.rstrip('.')}{meant}"

    @property
    def line_before(self) -> str:
        """The line up to what is wrong."""
        return self.text[: self.start]

    @property
    def wrong(self) -> str:
        """The mistake."""
        return self.text[self.start : self.end]

    @property
    def rest(self) -> str:
        """The line after it."""
        return self.text[self.end :]


class _Bad(Exception):
    def __init__(self, message: str, start: int, end: int, instead: str | None = None) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.instead = message, start, end, instead


@dataclass(frozen=True, slots=True)
class _Token:
    """A piece between white space. ``quotes``: positions of its quotation marks."""

    text: str
    start: int
    quotes: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def parse(text: str, *, now: int, fabrics: Sequence[str] = (), zone: tzinfo = UTC) -> Query | Problem:
    """Read a line. ``now`` (microseconds since the epoch, UTC) is what ``-4h`` and ``today`` count from; ``fabrics``:
    the names there are; ``zone``: that of its days and hours.
    """
    text = clean_text(text)[0]
    known = Known(now=now, names=tuple(fabrics), zone=zone)
    try:
        if len(text) > CHARS_MAX:
            raise _Bad(f"a query has at most {CHARS_MAX} characters: shorten it from here on", CHARS_MAX, len(text))
        terms: list[Term] = []
        for token in _tokens(text):
            if len(terms) == TERMS_MAX:
                raise _Bad(f"a query has at most {TERMS_MAX} terms: take some away", token.start, token.end)
            terms.append(_term(token, known, terms))
    except _Bad as bad:
        whole = "" if bad.instead is None else text[: bad.start] + bad.instead + text[bad.end :]
        return Problem(text=text, message=bad.message, start=bad.start, end=bad.end, instead=whole)
    return Query(text, tuple(terms))


def quote_term(field: str, value: str, *, negated: bool = False) -> str:
    """A term as it is typed: quotes only where the value needs them."""
    value = value.replace('"', "").strip()
    if field == LABEL:
        key, equals, of = value.partition("=")
        of = f'"{of}"' if re.search(r"\s", of) else of
        return f"{'-' if negated else ''}{LABEL}.{key}{equals}{of}"
    needs = field == TEXT and (":" in value or value.startswith("-"))
    if needs or not value or re.search(r"\s", value):
        value = f'"{value}"'
    return ("-" if negated else "") + (value if field == TEXT else f"{field}:{value}")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        start = at
        quotes: list[int] = []
        while at < len(text) and (len(quotes) % 2 or not text[at].isspace()):
            if text[at] == '"':
                quotes.append(at)
            at += 1
        if len(quotes) % 2:
            raise _Bad(
                'a quotation mark is open: close it with another "',
                quotes[-1],
                at,
                text[quotes[-1] : at].rstrip() + '"',
            )
        yield _Token(text[start:at], start, tuple(quotes))


_NAME = re.compile(r"[A-Za-z_]+:")
_LABEL = re.compile(rf"{LABEL}\.([^:=]*)(:?)", re.IGNORECASE)
_HOURS = re.compile(r"\d\d:\d\d(:\d\d)?(\.\..*)?")


def _term(token: _Token, known: Known, before: list[Term]) -> Term:
    negated = token.text.startswith("-")
    start = token.start + negated
    body = token.text[negated:]
    if not body:
        raise _Bad("a minus stands alone: write it directly before a term", token.start, token.end)
    if label := _LABEL.match(body):
        # A colon stands for the equals sign, as in other terms.
        body = f"{LABEL}:{label[1]}{'=' if label[2] else ''}{body[label.end() :]}"
    named = _NAME.match(body)
    field, at = TEXT, start
    if named:
        field, at = named[0][:-1].lower(), start + named.end()
        if field not in FIELDS or field == TEXT:
            raise _no_field(field, body, start, token.end)
    elif before and FIELDS[before[-1].field].kind is Kind.INSTANT and _HOURS.fullmatch(body):
        instant = before[-1]
        whole = f'{instant.field}:"{instant.written} {body}"'
        message = f"a day and its hour stand in quotes together: write {whole}"
        raise _Bad(message, instant.start, token.end, "-" * instant.negated + whole)
    row = FIELDS[field]
    raw = body[at - start :]
    written = raw.replace('"', "")
    if not written.strip():
        what = f"{field}: has no value" if named else "these quotes are empty"
        raise _Bad(f"{what}: write for example {row.example}", token.start, token.end)
    # Positions inside a value are those of the line only where no quotation mark was taken away.
    shift = at + (1 if raw.startswith('"') else 0)
    try:
        value = READ[row.kind](written, row.choices, known)
    except Misread as misread:
        first, last = shift + misread.start, shift + misread.end
        if not token.start <= first < last <= token.end:
            first, last = at, token.end
        raise _Bad(f"{field}: {misread.message}", first, last, misread.instead) from None
    if row.kind in (Kind.CHOICE, Kind.YES_NO) and not (negated or row.many):
        _once(field, row, before, token)
    return Term(field=field, negated=negated, value=value, written=written, start=token.start, end=token.end)


def _no_field(field: str, body: str, start: int, end: int) -> _Bad:
    names = [name for name in FIELDS if name != TEXT]
    close = MEANT.get(field) or get_close_matches(field, names, n=1, cutoff=0.6)
    # The name alone is wrong: the value is kept in what is suggested.
    if close:
        return _Bad(f"there is no field {field!r}: did you mean {close[0]}?", start, start + len(field), close[0])
    phrase = quote_term(TEXT, body)
    return _Bad(
        f"there is no field {field[:30]!r}: there are {', '.join(names)}; in quotes it is looked for in the title",
        start,
        end,
        phrase,
    )


def _once(field: str, row: Field, before: list[Term], token: _Token) -> None:
    """Refuse a field that is asked for twice. A run has one state, so commas were meant."""
    first = next((term for term in before if term.field == field and not term.negated), None)
    if first is None:
        return
    sentence = f"{field}: stands twice, and a run has only one"
    if row.kind is Kind.CHOICE:
        sentence += f": write both with a comma, like {row.example}"
    raise _Bad(sentence, token.start, token.end, "")
