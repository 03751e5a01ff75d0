"""Chains of fallbacks as names: who stands in for whom, nearest first, and ways that lead back to where they began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

Named = Mapping[str, tuple[str, ...]]
"""What each model names as its fallbacks, in order."""


def chain(named: Named, name: str) -> tuple[str, ...]:
    """The models that may stand in for one: those that it names, then those that they name, each once and itself never."""
    found: list[str] = []
    wave: Iterable[str] = named.get(name, ())
    while wave := [each for each in dict.fromkeys(wave) if each != name and each not in found]:
        found.extend(wave)
        wave = [further for each in wave for further in named.get(each, ())]
    return tuple(found)


def cycles(named: Named) -> Iterator[tuple[str, ...]]:
    """Ways that lead back to where they began: the names along each, the first one again at its end. At least one where there is any."""
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
