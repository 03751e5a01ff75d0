"""Walks chains of fallback models by name, nearest first, and finds chains that lead back to their beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

Named = Mapping[str, tuple[str, ...]]
"""The fallbacks that each model names, in order."""


def chain(named: Named, name: str) -> tuple[str, ...]:
    """Return the models that may stand in for one, each once and never itself. The models that it names come first,
    then those that they name.
    """
    found: list[str] = []
    wave: Iterable[str] = named.get(name, ())
    while wave := [each for each in dict.fromkeys(wave) if each != name and each not in found]:
        found.extend(wave)
        wave = [further for each in wave for further in named.get(each, ())]
    return tuple(found)


def cycles(named: Named) -> Iterator[tuple[str, ...]]:
    """Ways that lead back to where they began: the names along each, the first one again at its end. At least one where
    there is any.
    """
    done: set[str] = set()
    for start in named:
        if start in done:
            continue
        # Without recursion, since a chain may be longer than Python's stack.
        path, ahead = [start], [iter(named[start])]
        while path:
            name = next(ahead[-1], None)
            if name is None:
                done.add(path.pop())
                ahead.pop()
            elif name in path:
                yield (*path[path.index(name) :], name)
            elif name in named and name not in done:
                path.append(name)
                ahead.append(iter(named[name]))


def fallback_problems(models: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield a sentence for each mistake in the fallbacks of models, with its path. Models come in the
    fabric's order.
    """
    for n, fallbacks in enumerate(models.values()):
        for m, fallback in enumerate(fallbacks):
            if fallback not in models:
                yield f"models.{n}.fallbacks.{m}: no model is named {fallback!r}"
            elif fallback in fallbacks[:m]:
                yield f"models.{n}.fallbacks.{m}: {fallback!r} is there twice"
    places = {name: n for n, name in enumerate(models)}
    for way in cycles(models):
        yield f"models.{places[way[0]]}.fallbacks: {' -> '.join(way)} leads back to where it began; take one of them out"


def cheaper_problems(models: Mapping[str, str | None]) -> Iterator[str]:
    """Yield a sentence for each mistake in the cheaper models, with its path. Models come in the fabric's order."""
    places = {name: n for n, name in enumerate(models)}
    for name, cheaper in models.items():
        if cheaper and cheaper not in models:
            yield f"models.{places[name]}.cheaper: no model is named {cheaper!r}"
    for way in cycles({name: (cheaper,) if cheaper else () for name, cheaper in models.items()}):
        yield f"models.{places[way[0]]}.cheaper: {' -> '.join(way)} leads back to where it began; take one of them out"
