"""Translates names of commands of the release before this one. This release is the last that reads them."""

from collections.abc import Callable, Mapping, Sequence

from fabric.program.name import program

Words = Sequence[str]

RENAMED: Mapping[str, tuple[str, ...]] = {
    "explain": ("run", "explain"),
    "export_run": ("run", "export"),
    "decide": ("review", "decide"),
    "review_history": ("review", "history"),
    "drill_stop": ("drill", "stop"),
    "notifications": ("notification",),
    "verify_audit": ("admin", "verify"),
    "replay_run": ("admin", "replay"),
    "rebuild_projections": ("admin", "rebuild"),
    "retention": ("admin", "retention"),
    "simulate": ("dev", "simulate"),
    "simulate_endpoint": ("dev", "endpoint"),
    "booking": ("dev", "booking"),
    "scoreboard": ("dev", "scoreboard"),
    "evaluate_detectors": ("dev", "detectors"),
    "bench": ("dev", "bench"),
    "chaos": ("dev", "chaos"),
}
VERBS: Mapping[str, frozenset[str]] = {
    "run": frozenset(
        [
            "start",
            "list",
            "show",
            "stats",
            "label",
            "follow",
            "explain",
            "pause",
            "resume",
            "cancel",
            "terminate",
            "retry",
            "say",
            "context",
            "fork",
            "export",
        ]
    ),
    "drill": frozenset(("run", "list", "coverage", "stop")),
    "budget": frozenset(("list", "set")),
}
"""Verbs of the commands that had none; a test compares them with the parsers."""
_HELP = frozenset(("-h", "--help"))


def _began_with_fabric(noun: str, verb: str) -> Callable[[Words], tuple[str, ...]]:
    return lambda rest: (noun, verb, *rest)


def _budget(rest: Words) -> tuple[str, ...]:
    sets = any(word.partition("=")[0] in ("--usd", "--tokens") for word in rest)
    return ("budget", "set" if sets else "list", *rest)


def _breakers(rest: Words) -> tuple[str, ...]:
    """Translate `breakers --open SCOPE` into `breaker open SCOPE`."""
    words = [
        part for word in rest for part in (word.split("=", 1) if word.startswith(("--open=", "--reset=")) else [word])
    ]
    for option in ("--open", "--reset"):
        if option in words:
            at = words.index(option)
            return ("breaker", option[2:], *words[at + 1 : at + 2], *words[:at], *words[at + 2 :])
    return ("breaker", "list", *words)


def _assign(rest: Words) -> tuple[str, ...]:
    """Translate `review reassign REVIEW USER` into `review assign REVIEW --to USER`."""
    names = [word for word in rest if not word.startswith("-")]
    to = ("--to", *names[1:]) if names[1:] else ()
    return ("review", "assign", *names[:1], *to, *(word for word in rest if word.startswith("-")))


FLAT: Mapping[str, Callable[[Words], tuple[str, ...]]] = {
    "run": _began_with_fabric("run", "start"),
    "drill": _began_with_fabric("drill", "run"),
    "budget": _budget,
}
"""Commands that had no verbs: what they said is translated where no verb follows."""


def translate(words: Words) -> tuple[tuple[str, ...], str]:
    """Return a command line in present words, and a sentence about its old name; empty where it had none."""
    name, rest = (words[0], words[1:]) if words else ("", ())
    if name == "breakers":
        new = _breakers(rest)
    elif tuple(words[:2]) == ("review", "reassign"):
        new = _assign(words[2:])
        name = "review reassign"
    elif name in RENAMED:
        new = (*RENAMED[name], *rest)
    elif name in FLAT and _has_old_form(name, rest):
        new = FLAT[name](rest)
    else:
        return tuple(words), ""
    said = " ".join(RENAMED.get(name, new[:2]))
    return new, f"`{name}` is now `{program()} {said}`; the next release knows the new name only."


def _has_old_form(name: str, rest: Words) -> bool:
    if not rest:
        return name != "run"  # A run was always of a fabric.
    return rest[0] not in VERBS[name] | _HELP
