"""Guardrails compiled for a fabric: which rules look where, and what a pattern of its own has to be. RE2: time linear in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import re2

from fabric.core.evaluators import HITS_TOLD, Hit, Scan
from fabric.core.fingerprint import fingerprint
from fabric.core.gates import GuardrailGroup
from fabric.guardrails.accepts import Accepts
from fabric.guardrails.rules import RULES, Rule

JSON = Any
GROUPS_MAX = 20
"""Groups of a pattern: each costs time at each character."""
MEMORY_BYTES = 8 * 1024 * 1024
"""Of one compiled pattern at most: a pattern that needs more is refused."""
SHOWN_CHARS = 4
"""Of a hit at most; a quarter of it where that is less."""
DEPTH_MAX = 200
MATCHES_MAX = 1_000
"""Of one pattern in one text that are looked at for what they tell; the first of them blocks."""
MASKED_MAX = 200
"""Different things of one pattern that are masked one by one, each by a pass over the text."""
ASSIGNED_CHARS = 300
"""Of a text that is looked at once more behind its key."""

SHIPPED: Mapping[str, Rule] = {rule.name: rule for rule in RULES}
SHIPPED_DIGEST = fingerprint([[rule.name, [[one.name, one.pattern] for one in rule.patterns]] for rule in RULES])
"""Of the shipped patterns: a decision names the rules it was taken under."""


class PatternProblem(ValueError):
    """A pattern that RE2 does not take. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Looking:
    """One compiled pattern under the name that a hit is told by."""

    name: str
    pattern: Any
    accepts: Accepts | None = None

    def matches(self, text: str) -> Iterator[str]:
        """What counts of each match."""
        for found in self.pattern.finditer(text):
            taken = found.group(1) if self.pattern.groups and found.group(1) is not None else found.group(0)
            if taken and (self.accepts is None or self.accepts(taken)):
                yield taken


@cache
def pattern_of(text: str) -> Any:
    """A compiled pattern. PatternProblem says why it is none, or why it would find something in every text."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    try:
        found = re2.compile(text, options)
    except re2.error as error:
        said = error.args[0] if error.args else error
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        hint = "; lookaround and references back do not exist in RE2" if "(?" in said or "\\" in said else ""
        raise PatternProblem(f"is no RE2 pattern: {said[:200]}{hint}") from None
    if found.groups > GROUPS_MAX:
        raise PatternProblem(f"has {found.groups} groups; at most {GROUPS_MAX}, write (?:...) where none is taken")
    if found.search("") is not None:
        raise PatternProblem("matches the empty text, so it would block everything; make it ask for something")
    return found


@cache
def looking(rule: str) -> tuple[Looking, ...]:
    """The compiled patterns of a shipped rule. KeyError for an unknown one."""
    return tuple(Looking(f"{rule}.{one.name}", pattern_of(one.pattern), one.accepts) for one in SHIPPED[rule].patterns)


def problems(groups: Sequence[GuardrailGroup]) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for every rule that does not exist and every pattern that is none."""
    for n, group in enumerate(groups):
        at = f"gates.guardrails.{n}"
        if not group.rules and not group.patterns:
            yield at, f"looks for nothing; name rules ({', '.join(SHIPPED)}) or give patterns"
        for i, rule in enumerate(group.rules):
            if rule not in SHIPPED:
                yield f"{at}.rules.{i}", f"no guardrail is named {rule!r}; there are: {', '.join(SHIPPED)}"
        for i, own in enumerate(group.patterns):
            try:
                pattern_of(own.pattern)
            except PatternProblem as problem:
                yield f"{at}.patterns.{i}.pattern", f"pattern {own.name!r} {problem}"


def scans(groups: Sequence[GuardrailGroup]) -> dict[str, Scan]:
    """What looks at each place, by place. Call ``problems`` first: PatternProblem or KeyError for what it names."""
    found: dict[str, dict[str, Looking]] = {}
    for group in groups:
        chosen = [one for rule in group.rules for one in looking(rule)]
        chosen += [Looking(own.name, pattern_of(own.pattern)) for own in group.patterns]
        for place in group.places:
            found.setdefault(place, {}).update({one.name: one for one in chosen})
    return {place: scan_of(patterns.values()) for place, patterns in found.items()}


def scan_of(patterns: Iterable[Looking]) -> Scan:
    """Looks at every text, key and number of a JSON value."""
    chosen = tuple(patterns)

    def scan(given: JSON) -> list[Hit]:
        hits: dict[tuple[str, str, str], Hit] = {}
        for path, text in _texts(given, "", chosen, 0):
            for one in chosen:
                for taken in islice(one.matches(text), MATCHES_MAX):
                    hit = Hit(one.name, path, masked(taken))
                    hits[hit.rule, hit.path, hit.excerpt] = hit
                    if len(hits) >= HITS_TOLD:
                        return list(hits.values())
        return list(hits.values())

    return scan


def masked(taken: str) -> str:
    """What may be told of a hit: too little to be of use to anybody who reads it."""
    shown = min(SHOWN_CHARS, len(taken) // 4)
    return f"{taken[:shown]}…, {len(taken)} characters"


def without(given: JSON, patterns: Sequence[Looking]) -> JSON:
    """A JSON value in which what the patterns find is replaced by its pattern's name and its first characters."""
    if isinstance(given, str):
        return _without(given, given, patterns)
    if isinstance(given, dict):
        return {_without(key, key, patterns): _named(key, item, patterns) for key, item in given.items()}
    return [without(item, patterns) for item in given] if isinstance(given, list) else given


def _named(key: str, item: JSON, patterns: Sequence[Looking]) -> JSON:
    found = without(item, patterns)
    if isinstance(found, str) and len(found) <= ASSIGNED_CHARS:
        found = _without(f"{key}: {found}", found, patterns)  # What a password is called stands in the key.
    return found


def _without(looked_at: str, text: str, patterns: Sequence[Looking]) -> str:
    for one in patterns:
        found = dict.fromkeys(one.matches(looked_at))
        if len(found) > MASKED_MAX:
            return f"[{one.name}: at {len(found):,} places, so the whole text of {len(text):,} characters is left out]"
        for taken in found:
            text = text.replace(taken, f"[{one.name}: {masked(taken)}]")
    return text


def _texts(given: JSON, path: str, chosen: tuple[Looking, ...], depth: int) -> Iterator[tuple[str, str]]:
    if depth > DEPTH_MAX:
        return
    if isinstance(given, str):
        yield path, given
    elif isinstance(given, dict):
        for key, item in given.items():
            # A key that is a secret itself is looked at as a text, and named by no path.
            secret = any(True for one in chosen for _ in one.matches(str(key)))
            below = f"{path}.<key>" if secret else f"{path}.{key}"
            below = below.lstrip(".")
            if secret:
                yield below, str(key)
            yield from _texts(item, below, chosen, depth + 1)
            if isinstance(item, str) and len(item) <= ASSIGNED_CHARS:
                yield below, f"{key}: {item}"  # What a password is called stands in the key.
    elif isinstance(given, list | tuple):
        for n, item in enumerate(given):
            yield from _texts(item, f"{path}.{n}".lstrip("."), chosen, depth + 1)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        yield path, str(given)
