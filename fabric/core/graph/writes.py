"""Context variables: written without taking a turn, tentative while their round is in flight (semantics.md 5; S4 "Packet execution model")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fabric.core.frozen import replace
from fabric.core.graph.state import FAILURE_KEY, OUTCOME_KEY, Logged, Packet, Round, State, Writes

JSON = Any


class Read(NamedTuple):
    """What a reader sees of one context variable."""

    value: JSON
    """None: it is not set, which is the same."""
    tentative: bool
    """The round in flight wrote or deleted it: it goes back to what it was if the round is lost."""


def written(context: Mapping[str, JSON], writes: Writes) -> Mapping[str, JSON]:
    """The context after a change: deleted first, then set."""
    left = {key: held for key, held in context.items() if key not in writes.delete}
    return left | dict(writes.set)


def read(state: State, key: str) -> Read:
    """A context variable as any reader sees it now."""
    own = state.round.log if state.round is not None else ()
    last = next((one for one in reversed(own) if key in one.writes.set or key in one.writes.delete), None)
    return Read(seen(state).get(key), tentative=last is not None and last.tentative)


def seen(state: State) -> Mapping[str, JSON]:
    """Every context variable as it stands now, with the tentative writes of the round in flight."""
    return _after(state.context, state.round.log if state.round is not None else ())


def kept(state: State) -> Mapping[str, JSON]:
    """The context without what the round in flight wrote: what stands if it is lost."""
    log = state.round.log if state.round is not None else ()
    return _after(state.context, (one for one in log if not one.tentative))


def committed(state: State, packet: Packet) -> Mapping[str, JSON]:
    """The context after a packet: its round's writes, then its own, then how it ended (``outcome``, ``failure_class``; None where it did not fail)."""
    said = written(seen(state), packet.writes)
    return {**said, OUTCOME_KEY: str(packet.outcome), FAILURE_KEY: packet.error and str(packet.error)}


def logged(state: State, writer: str, writes: Writes) -> State:
    """The state after context writes; those of the round in flight are tentative."""
    if state.round is None:
        return replace(state, context=written(state.context, writes))
    return replace(state, round=_with(state.round, Logged(writer == state.round.speaker, writes)))


def _with(current: Round, one: Logged) -> Round:
    return Round(current.speaker, (*current.log, one))


def _after(context: Mapping[str, JSON], log: Iterable[Logged]) -> Mapping[str, JSON]:
    for one in log:
        context = written(context, one.writes)
    return context
