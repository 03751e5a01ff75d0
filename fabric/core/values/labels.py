"""Labels of a run: pairs of a key and a value by which people group and find runs. Every reader of a run sees them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

KEY_CHARS_MAX = 63
VALUE_CHARS_MAX = 128
LABELS_MAX = 16
"""Largest number of labels of one run."""

_KEY = re.compile(r"[a-z0-9._-]+")


class BadLabel(ValueError):
    """A label that is not taken. Its text is one sentence: which key, the limit, and what to do."""


def check_key(key: str) -> str:
    """Return a label's key. Raises BadLabel."""
    if not key:
        raise BadLabel("a label has no key; write KEY=VALUE, such as team=ops")
    if len(key) > KEY_CHARS_MAX:
        message = f"the label key {key[:20]!r}... has {len(key):,} characters; at most {KEY_CHARS_MAX} are taken; use a shorter key"
        raise BadLabel(message)
    if not _KEY.fullmatch(key):
        raise BadLabel(f"the label key {key!r} is not taken; use lower-case letters, digits, -, _ and .")
    return key


def check_label(key: str, value: str) -> tuple[str, str]:
    """Return a label with white space around its value taken away. Raises BadLabel."""
    key, value = check_key(key), value.strip()
    if not value:
        raise BadLabel(f"label {key} has no value; write {key}=VALUE, or leave the label out")
    if len(value) > VALUE_CHARS_MAX:
        message = f"the value of label {key} has {len(value):,} characters; at most {VALUE_CHARS_MAX} are taken; use a shorter value"
        raise BadLabel(message)
    # The query line has no sign for a quotation mark inside a value.
    if not value.isprintable() or '"' in value:
        message = f'the value of label {key} has a line end, another control character or a "; use other characters'
        raise BadLabel(message)
    return key, value


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return all labels of a run, by key. Raises BadLabel."""
    checked = dict(check_label(key, value) for key, value in sorted(labels.items()))
    if len(checked) > LABELS_MAX:
        raise BadLabel(f"the run would have {len(checked)} labels; at most {LABELS_MAX} are taken; leave some out")
    return checked


def split_label(written: str) -> tuple[str, str]:
    """Return key and value of ``KEY=VALUE``. Raises BadLabel without an equals sign."""
    key, equals, value = written.partition("=")
    if not equals:
        raise BadLabel(f"{written[:60]!r} is no label; write KEY=VALUE, such as team=ops")
    return key.strip(), value


def gather_labels(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return pairs by key. Raises BadLabel for a key that stands twice."""
    gathered: dict[str, str] = {}
    for key, value in pairs:
        if key in gathered:
            raise BadLabel(
                f"label {key[:KEY_CHARS_MAX]} stands twice; a run has one value for each key, so leave one out"
            )
        gathered[key] = value
    return gathered


def join_labels(labels: Mapping[str, str]) -> str:
    """Return labels as one text, a line each, as ``read_labels`` reads it."""
    return "\n".join(f"{key}={value}" for key, value in sorted(labels.items()))


def read_labels(text: str) -> dict[str, str]:
    """Return the labels of ``join_labels``, by key in the order of keys."""
    pairs = (line.partition("=") for line in text.split("\n") if line)
    return dict(sorted((key, value) for key, _, value in pairs))
