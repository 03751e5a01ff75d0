"""Conditions and targets that an installation registers for transition graphs: loaded once a process from the dotted
paths in FABRIC_GRAPH_RULES.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from fabric.core.graph.registry import BUILT_IN, Registry

VARIABLE = "FABRIC_GRAPH_RULES"


class RulesUnusable(ValueError):
    """A path without a registry, or a registry that does not fit the others, in one sentence."""


def build_registry(paths: Iterable[str]) -> Registry:
    """Return all of them in one. Raises RulesUnusable for the first one that fails."""
    joined = BUILT_IN
    for path in paths:
        try:
            joined = joined.join(_load_registry(path))
        except RulesUnusable:
            raise
        except ValueError as error:
            raise RulesUnusable(f"{VARIABLE} has {path!r}, which cannot stand beside the others: {error}") from None
    return joined


def _load_registry(path: str) -> Registry:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except AttributeError:
        raise RulesUnusable(f"{VARIABLE} has {path!r}, but {module} has no {name}: correct it") from None
    except (Exception, SystemExit) as error:  # An installation's module may raise anything when it is loaded.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RulesUnusable(f"{VARIABLE} has {path!r}, which cannot be imported ({said}): correct it") from error
    if not isinstance(found, Registry):
        what = type(found).__name__
        raise RulesUnusable(
            f"{VARIABLE} has {path!r}, which is of type {what}: name a Registry of fabric.core.graph.registry"
        )
    return found
