"""Conditions and targets that an installation registers for transition graphs: found by the dotted paths that FABRIC_GRAPH_RULES names, once a process."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from fabric.core.graph.registry import BUILT_IN, Registry

VARIABLE = "FABRIC_GRAPH_RULES"


class RulesUnusable(ValueError):
    """A path that names no registry, or one that does not fit the others, in one sentence."""


def registry_of(paths: Iterable[str]) -> Registry:
    """All of them in one. RulesUnusable for the first that cannot be had."""
    joined = BUILT_IN
    for path in paths:
        try:
            joined = joined.joined(_named(path))
        except RulesUnusable:
            raise
        except ValueError as error:
            raise RulesUnusable(f"{VARIABLE} has {path!r}, which cannot stand beside the others: {error}") from None
    return joined


def _named(path: str) -> Registry:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except AttributeError:
        raise RulesUnusable(f"{VARIABLE} has {path!r}, but {module} has no {name}: correct it") from None
    except (Exception, SystemExit) as error:  # Whatever an installation's module does when it is loaded.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RulesUnusable(f"{VARIABLE} has {path!r}, which cannot be imported ({said}): correct it") from error
    if not isinstance(found, Registry):
        what = type(found).__name__
        raise RulesUnusable(
            f"{VARIABLE} has {path!r}, which is of type {what}: name a Registry of fabric.core.graph.registry"
        )
    return found
