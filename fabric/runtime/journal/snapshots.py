"""A run's state as bytes, so that a long journal need not be read from its beginning. Losing a snapshot costs time,
nothing else.

A snapshot is read by the very program that made it. ``STATE_DIGEST`` is over every field that a state can have, and
over the code that folds. So a changed program folds the journal anew, and no state is ever migrated. Its bytes begin
with their own hash.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any

import msgspec
from msgspec import inspect

from fabric.core.events.commands import CallModel, CallTool, Command
from fabric.core.evolve import EVOLVE
from fabric.core.mechanisms import ORDER, deadlock_monitor, find_state, loop_detector
from fabric.core.state.context import Contents
from fabric.core.state.run import Run, Step
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace, value
from fabric.runtime.ports.batch_parts import Snapshot

HASH_BYTES = 16


@value()
class Cadence:
    """Events between two snapshots."""

    on_release: int = 200
    """Least events for a snapshot at release: fewer are folded as fast as a snapshot is read."""
    while_owned: int = 2_000
    """Events between snapshots while the run is driven. They limit the loss at the owner's death, and let memory
    drop contents that are not needed.
    """

    def due(self, since: int, *, release: bool) -> bool:
        """Return True if ``since`` events are enough for a snapshot."""
        return since >= (self.on_release if release else self.while_owned)


@value()
class ContentPosition:
    """Position in the journal of a content that a state refers to."""

    ref: str
    seq: int
    size: int


@value()
class _State:
    """The decoded bytes. Mechanism states are separate, each under its mechanism's name, because their types differ."""

    run: Run
    guards: tuple[tuple[str, msgspec.Raw], ...]
    contents: tuple[ContentPosition, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_State).decode
_GUARDS = {module.NAME: msgspec.msgpack.Decoder(module.State).decode for module in ORDER}


class UnsoundSnapshot(ValueError):
    """The bytes of a snapshot are not those that were written: the journal is folded from its beginning instead."""


def build_snapshot(run: Run, head: bytes, contents: Contents, *, sources: bool = False) -> Snapshot:
    """Return the snapshot of a run at ``run.seq``, with the positions of the contents that it still needs."""
    live = live_refs(run, contents.seqs, sources=sources)
    kept = tuple(ContentPosition(ref, contents.seqs[ref], contents.sizes[ref]) for ref in live)
    guards = tuple((key, msgspec.Raw(_encode(state))) for key, state in run.guards.items())
    state = _encode(_State(replace(run, guards={}), guards, kept))
    refs = tuple(sorted({one.seq for one in kept}))
    hashed = _hash(run.seq, head, refs, state)
    return Snapshot(seq=run.seq, digest=STATE_DIGEST, head=head, state=hashed + state, refs=refs)


def restore_run(snapshot: Snapshot) -> tuple[Run, tuple[ContentPosition, ...]]:
    """Return the run of the snapshot, and the positions of its contents. Raises UnsoundSnapshot."""
    hashed, state = snapshot.state[:HASH_BYTES], snapshot.state[HASH_BYTES:]
    if snapshot.digest != STATE_DIGEST or hashed != _hash(snapshot.seq, snapshot.head, snapshot.refs, state):
        raise UnsoundSnapshot(f"the snapshot at event {snapshot.seq} was changed, or is of another program")
    found = _decode(state)
    guards = {key: _GUARDS[key.partition("/")[0]](raw) for key, raw in found.guards}
    return replace(found.run, guards=guards), found.contents


def is_sound(snapshot: Snapshot) -> bool:
    """Return True if ``restore_run`` would read the snapshot."""
    hashed = _hash(snapshot.seq, snapshot.head, snapshot.refs, snapshot.state[HASH_BYTES:])
    return snapshot.digest == STATE_DIGEST and snapshot.state[:HASH_BYTES] == hashed


def _hash(seq: int, head: bytes, refs: tuple[int, ...], state: bytes) -> bytes:
    return sha256(b"%d|%b|%b|%b" % (seq, head, ",".join(map(str, refs)).encode(), state)).digest()[:HASH_BYTES]


# -- what a state still needs ----------------------------------------------------------------------------------------


def live_refs(run: Run, known: Container[str], *, sources: bool = False) -> tuple[str, ...]:
    """Return the contents, of those ``known``, that a decision or a prompt may still read.

    Every reference in the state counts. Of a step that goes no further only its output and its opening note count: a
    verdict is about those bytes alone, and a person's words go on with a repeated step. Of the mechanisms only the
    deadlock monitor and the loop detector compare contents that no step refers to. ``sources``: include its tools'
    answers, against which its answers are checked.
    """
    steps = tuple(
        step
        if _goes_on(run, step)
        else (step.output_ref, step.note_ref, _instructions_ref(step), *(_results(step) if sources else ()))
        for step in run.steps.values()
    )
    rest = replace(run, steps={}, guards={})
    moves = run.guards.get(deadlock_monitor.NAME)
    said = tuple(_list_compared(run, step) for step in run.steps.values())
    found: dict[str, None] = {}
    _refer((rest, steps, moves, said), known, found)
    return tuple(found)


def _list_compared(run: Run, step: Step) -> tuple[tuple[str, ...], ...]:
    """Return the contents that the loop detector may still compare. They are a step's answers, its words before calls,
    and the calls' arguments.
    """
    window = find_state(run.guards, loop_detector, step.id)
    if not _goes_on(run, step):
        return (window.answers,)
    return window.answers, tuple(ref for _, ref in window.said), tuple(call.args_ref for call in window.calls)


def unsent_refs(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the contents of commands that go out once their batch has committed. A content that a later decision of
    the batch replaced (an edited plan) is not in the state any more.
    """
    for command in commands:
        if isinstance(command, CallModel):
            yield from (ref for message in command.messages for ref in message.refs)
        elif isinstance(command, CallTool):
            yield from (command.args_ref, *command.answers)


def _instructions_ref(step: Step) -> str:
    """Return the reference of a turn's instructions, since a failed turn may begin again."""
    return "" if step.turn is None else step.turn.told_ref


def _results(step: Step) -> tuple[str, ...]:
    return tuple(call.result_ref for turn in step.history for call in turn.calls)


def _goes_on(run: Run, step: Step) -> bool:
    """Return True if a model may read the step's history again. An author's finished work may be handed over, with
    its transcript, until its stage is left.
    """
    if step.status == "active" or any(one.issued.step_id == step.id for one in run.pending.values()):
        return True
    if any(review.fact.step_id == step.id for review in run.reviews.values()):
        return True
    chooses = step.turn is not None and step.turn.chooses
    if chooses and step.branch >= run.talk.turns and not run.talk.closed:
        return True  # Its packet is not committed yet: its calls and writes are read then.
    stage = run.stages.get(step.stage)
    return step.stage is not Stage.FAN_OUT and stage is not None and not stage.left


def _refer(given: Any, known: Container[str], found: dict[str, None]) -> None:
    """Add every text in ``given`` that is a known content's name, in order. A state has thousands of values, few of
    which are.
    """
    if isinstance(given, msgspec.Struct):
        given = msgspec.structs.astuple(given)
    elif isinstance(given, dict):
        given = given.values()
    elif not isinstance(given, tuple | list):
        return
    for item in given:
        if not item:  # Most values of a state are empty texts, zeros and empty mappings.
            continue
        if isinstance(item, str):
            if item in known:
                found[item] = None
        elif not isinstance(item, int):
            _refer(item, known, found)


# -- which program ---------------------------------------------------------------------------------------------------


def _shape(cls: type[Any], seen: dict[str, list[str]]) -> None:
    """Describe each struct that a state may have. The fields have their types and their defaults, which the bytes leave
    out.
    """
    pending: list[Any] = [inspect.type_info(cls)]
    while pending:
        one = pending.pop()
        if not isinstance(one, inspect.StructType):
            pending += _inner(one)
        elif one.cls.__qualname__ not in seen:
            fields = [
                (field, field.default if field.default_factory is msgspec.NODEFAULT else "made") for field in one.fields
            ]
            seen[one.cls.__qualname__] = [f"{field.name}:{_name(field.type)}={default!r}" for field, default in fields]
            pending += [field.type for field in one.fields]


def _inner(info: Any) -> list[Any]:
    match info:
        case inspect.UnionType():
            return list(info.types)
        case inspect.DictType():
            return [info.key_type, info.value_type]
        case inspect.VarTupleType() | inspect.ListType():
            return [info.item_type]
        case _:
            return []


def _name(info: Any) -> str:
    match info:
        case inspect.StructType():
            return info.cls.__qualname__
        case inspect.EnumType():
            return repr([member.value for member in info.cls])
        case inspect.LiteralType():
            return repr(info.values)
        case _:
            return type(info).__name__ + repr([_name(one) for one in _inner(info)])


def _code(code: CodeType) -> str:
    """Return a function's code as text that is equal in every process of one Python version."""
    consts = [_code(one) if isinstance(one, CodeType) else _const(one) for one in code.co_consts]
    return f"{code.co_code.hex()}{code.co_names}{consts}"


def _const(one: Any) -> str:
    return repr(sorted(map(repr, one))) if isinstance(one, frozenset) else repr(one)


def _functions(*folding: Callable[..., Any]) -> list[str]:
    """Return the code of every function in the modules that those are from."""
    modules = {function.__module__: function.__globals__ for function in folding if isinstance(function, FunctionType)}
    return [
        f"{name}.{key}:{_code(held.__code__)}"
        for name in sorted(modules)
        for key, held in sorted(modules[name].items())
        if isinstance(held, FunctionType) and held.__module__ == name
    ]


def _digest() -> str:
    seen: dict[str, list[str]] = {}
    for cls in (_State, *(module.State for module in ORDER)):
        _shape(cls, seen)
    folding = _functions(*EVOLVE.values(), *(module.observe for module in ORDER))
    return sha256(repr((sorted(seen.items()), [module.NAME for module in ORDER], folding)).encode()).hexdigest()[:32]


STATE_DIGEST = _digest()
"""Digest of this program, which reads only its own snapshots."""
