"""Compiles a fabric's guardrails: the rules of each place, and the limits of its own patterns.

It also scans tools' answers for words that instruct their reader. RE2: time linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import re2

from fabric.core.spec.policies.gates import GuardrailGroup
from fabric.core.state.evaluators import HITS_TOLD, Hit, Passage, Scan, Screen
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.units import JSON
from fabric.policies.guardrails.accepts import Accepts
from fabric.policies.guardrails.rules import RULES, GuardrailRule

GROUPS_MAX = 20
"""Largest number of groups of a pattern: each costs time at each character."""
MEMORY_BYTES = 8 * 1024 * 1024
"""Largest compiled pattern, in bytes; a larger one is refused."""
SHOWN_CHARS = 4
"""Largest shown part of a hit, in characters; a quarter of the hit where that is less."""
DEPTH_MAX = 200
MATCHES_MAX = 1_000
"""Largest number of matches of one pattern in one text that are read for messages; the first of them blocks."""
MASKED_MAX = 200
"""Largest number of different hits of a pattern that are masked one by one. Each takes a pass over the text."""
QUOTE = r"\Q"
"""Begins a quotation in a pattern, which would also quote the patterns behind it."""
GROUPS_KEPT = 16
"""Largest number of groups of patterns that stay compiled for ``redact_value``."""
ASSIGNED_CHARS = 300
"""Characters of a text that are scanned once more behind its key."""

SHIPPED: Mapping[str, GuardrailRule] = {rule.name: rule for rule in RULES}
SHIPPED_DIGEST = fingerprint([[rule.name, [[one.name, one.pattern] for one in rule.patterns]] for rule in RULES])
"""Digest of the shipped patterns: a decision names the rules that it was made under."""


class PatternProblem(ValueError):
    """A pattern that RE2 refuses. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """One compiled pattern with the name for its hits."""

    name: str
    pattern: Any
    accepts: Accepts | None = None

    def matches(self, text: str) -> Iterator[str]:
        """Yield the part of each match that counts."""
        for found in self.pattern.finditer(text):
            taken = found.group(1) if self.pattern.groups and found.group(1) is not None else found.group(0)
            if taken and (self.accepts is None or self.accepts(taken)):
                yield taken


@cache
def compile_pattern(text: str) -> Any:
    """Return a compiled pattern. Raises PatternProblem if it is invalid, or would match every text."""
    try:
        found = re2.compile(text, _build_options())
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


def _build_options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    return options


class PatternGroup:
    """Patterns that are looked for together: a text that none of them matches is read once, not once for each."""

    def __init__(self, patterns: tuple[NamedPattern, ...]) -> None:
        self._patterns = patterns
        self._any = _compile_any([one.pattern.pattern for one in patterns])

    def list_candidates(self, text: str) -> tuple[NamedPattern, ...]:
        """Return the patterns to look for in a text: none where no pattern matches it, else all."""
        return () if self._any is not None and self._any.search(text) is None else self._patterns


def _compile_any(patterns: Sequence[str]) -> Any:
    """Return one pattern that matches wherever any of these does; None where it would be too large, or quotes."""
    if not patterns or any(QUOTE in one for one in patterns):
        return None
    options = _build_options()
    options.never_capture = True
    try:
        return re2.compile("|".join(f"(?:{one})" for one in patterns), options)
    except re2.error:
        return None


_group_patterns = lru_cache(GROUPS_KEPT)(PatternGroup)


@cache
def compile_patterns(rule: str) -> tuple[NamedPattern, ...]:
    """Return the compiled patterns of a shipped rule. Raises KeyError for an unknown one."""
    return tuple(
        NamedPattern(f"{rule}.{one.name}", compile_pattern(one.pattern), one.accepts) for one in SHIPPED[rule].patterns
    )


def problems(groups: Sequence[GuardrailGroup]) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for every unknown rule and every invalid pattern."""
    for n, group in enumerate(groups):
        at = f"gates.guardrails.{n}"
        if not group.rules and not group.patterns:
            yield at, f"looks for nothing; name rules ({', '.join(SHIPPED)}) or give patterns"
        for i, rule in enumerate(group.rules):
            if rule not in SHIPPED:
                yield f"{at}.rules.{i}", f"no guardrail is named {rule!r}; there are: {', '.join(SHIPPED)}"
        for i, own in enumerate(group.patterns):
            try:
                compile_pattern(own.pattern)
            except PatternProblem as problem:
                yield f"{at}.patterns.{i}.pattern", f"pattern {own.name!r} {problem}"


def scans(groups: Sequence[GuardrailGroup]) -> dict[str, Scan]:
    """Return the scan of each place. Call ``problems`` first: raises PatternProblem or KeyError for errors that it
    reports.
    """
    found: dict[str, dict[str, NamedPattern]] = {}
    for group in groups:
        chosen = [one for rule in group.rules for one in compile_patterns(rule)]
        chosen += [NamedPattern(own.name, compile_pattern(own.pattern)) for own in group.patterns]
        for place in group.places:
            found.setdefault(place, {}).update({one.name: one for one in chosen})
    return {place: build_scan(patterns.values()) for place, patterns in found.items()}


def build_scan(patterns: Iterable[NamedPattern]) -> Scan:
    """Return a function that scans every text, key and number of a JSON value."""
    chosen = PatternGroup(tuple(patterns))

    def scan(given: JSON) -> list[Hit]:
        hits: dict[tuple[str, str, str], Hit] = {}
        for path, text in _texts(given, "", chosen, 0):
            for one in chosen.list_candidates(text):
                for taken in islice(one.matches(text), MATCHES_MAX):
                    hit = Hit(one.name, path, mask_hit(taken))
                    hits[hit.rule, hit.path, hit.excerpt] = hit
                    if len(hits) >= HITS_TOLD:
                        return list(hits.values())
        return list(hits.values())

    return scan


def mask_hit(taken: str) -> str:
    """Return the part of a hit that may be shown: too little to be of use to a reader."""
    shown = min(SHOWN_CHARS, len(taken) // 4)
    return f"{taken[:shown]}…, {len(taken)} characters"


def redact_value(given: JSON, patterns: Sequence[NamedPattern]) -> JSON:
    """Return a JSON value with each hit replaced by its pattern's name and its first characters."""
    return _redact(given, _group_patterns(tuple(patterns)))


def _redact(given: JSON, patterns: PatternGroup) -> JSON:
    if isinstance(given, str):
        return _redact_text(given, given, patterns)
    if isinstance(given, dict):
        return {_redact_text(key, key, patterns): _text_with_key(key, item, patterns) for key, item in given.items()}
    return [_redact(item, patterns) for item in given] if isinstance(given, list) else given


def _text_with_key(key: str, item: JSON, patterns: PatternGroup) -> JSON:
    found = _redact(item, patterns)
    if isinstance(found, str) and len(found) <= ASSIGNED_CHARS:
        found = _redact_text(f"{key}: {found}", found, patterns)  # The key has the password's name.
    return found


def _redact_text(looked_at: str, text: str, patterns: PatternGroup) -> str:
    for one in patterns.list_candidates(looked_at):
        found = dict.fromkeys(one.matches(looked_at))
        if len(found) > MASKED_MAX:
            return f"[{one.name}: at {len(found):,} places, so the whole text of {len(text):,} characters is left out]"
        for taken in found:
            text = text.replace(taken, f"[{one.name}: {mask_hit(taken)}]")
    return text


def _texts(given: JSON, path: str, chosen: PatternGroup, depth: int) -> Iterator[tuple[str, str]]:
    if depth > DEPTH_MAX:
        return
    if isinstance(given, str):
        yield path, given
    elif isinstance(given, dict):
        for key, item in given.items():
            # A key that is a secret itself is looked at as a text, and named by no path.
            secret = any(True for one in chosen.list_candidates(str(key)) for _ in one.matches(str(key)))
            below = f"{path}.<key>" if secret else f"{path}.{key}"
            below = below.lstrip(".")
            if secret:
                yield below, str(key)
            yield from _texts(item, below, chosen, depth + 1)
            if isinstance(item, str) and len(item) <= ASSIGNED_CHARS:
                yield below, f"{key}: {item}"  # The key has the password's name.
    elif isinstance(given, list | tuple):
        for n, item in enumerate(given):
            yield from _texts(item, f"{path}.{n}".lstrip("."), chosen, depth + 1)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        yield path, str(given)


SCREENING_RULES = ("agent_instructions", "reviewer_instructions")
"""Shipped rules of the scan."""
AROUND = 160
"""Characters of the text on each side of a hit."""
FOUND_MAX = 400
KEPT = 2_048
"""Largest number of contents with remembered findings: a step's results are scanned before each call that changes
something.
"""


def screen() -> Screen:
    """Return a function that scans a content, and remembers its findings by the content's reference."""
    patterns = tuple(one for rule in SCREENING_RULES for one in compile_patterns(rule))
    known: dict[str, Passage | None] = {}

    def look(ref: str, given: JSON) -> Passage | None:
        if ref not in known:
            if len(known) >= KEPT:
                known.clear()
            known[ref] = next(_passages(given, patterns, 0), None)
        return known[ref]

    return look


def _passages(given: JSON, patterns: tuple[NamedPattern, ...], depth: int) -> Iterator[Passage]:
    if depth > DEPTH_MAX:
        return
    if isinstance(given, str):
        for one in patterns:
            for match in one.pattern.finditer(given):
                yield _passage(one.name, given, match.start(), match.end())
    elif isinstance(given, dict):
        for key, item in given.items():
            yield from _passages(key, patterns, depth + 1)
            yield from _passages(item, patterns, depth + 1)
    elif isinstance(given, list | tuple):
        for item in given:
            yield from _passages(item, patterns, depth + 1)


def _passage(rule: str, text: str, start: int, end: int) -> Passage:
    last = min(end, start + FOUND_MAX)
    return Passage(rule, text[max(0, start - AROUND) : start], text[start:last], text[last : last + AROUND])
