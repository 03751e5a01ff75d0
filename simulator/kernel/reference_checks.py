"""What must be true of calls that refer to others: invariants as in ``invariants.py`` (S2; semantics.md 6). References are read and followed here anew."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fabric.core.envelope import Event
from fabric.core.fingerprint import decode, fingerprint
from fabric.core.run import CallRecord, Run
from fabric.core.taxonomy import Cause
from simulator.kernel.seen import Seen, on, step_before

JSON = Any
OVER = ("done", "refused", "skipped")
WAITED = (Cause.TOOL_CONSTRAINT, Cause.DEPENDENCY_FAILED, Cause.SCHEMA_INVALID)
"""Why a call is refused for what it refers to."""


@on(
    *(
        "step_opened",
        "call_streamed",
        "model_answered",
        "tool_answered",
        "call_refused",
        "call_skipped",
        "call_resolved",
        "call_issued",
    ),
    *("call_edited", "call_responded", "call_deduplicated"),
)
def references_are_followed(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A call that refers to others is sent after all of them, with what they brought; and none that refers to what failed is."""
    step = after.steps.get(fact.step_id)
    if step is None or not step.agent:
        return ""
    if fact.kind == "step_opened":
        if fact.keeps:
            seen.referred[fact.step_id] = deepcopy(seen.referred.get(step_before(seen, fact), {}))
        return ""
    known: dict[str, JSON] = seen.referred.setdefault(fact.step_id, {})
    if fact.kind == "model_answered":
        proposed = decode(seen.content).get("calls", ()) if fact.verdict == "calls" else ()
        known["proposed"] = {one["call_id"]: one.get("args") for one in proposed if "problem" not in one}
        known["when"] = {one["call_id"]: one.get("when", "") for one in proposed}
        known["wrote"], known["edited"] = {}, {}
        known["coming"] = (fact.command_id, fact.attempt)
        _forget_broken_off(known, fact)
        return ""
    if fact.kind == "call_streamed":
        return _streamed(known, fact, decode(seen.content)["calls"][0]["args"])
    if fact.kind == "call_issued":
        return _sent(known, fact, after) if fact.call == "tool" else ""
    if fact.kind == "call_deduplicated":
        if fact.begun:
            known.setdefault("answers", {})[fact.call_id] = known["by_ref"][fact.result_ref]
        return ""
    if fact.kind == "call_resolved":
        known.setdefault("resolved", {})[fact.call_id] = decode(seen.content)["calls"][0]["args"]
        return ""
    if fact.kind == "call_edited":
        known["edited"][fact.call_id] = decode(seen.content)["calls"][0]
        return ""
    came = known.setdefault("by_ref", {})[event.content_ref] = decode(seen.content)
    if not (fact.kind == "tool_answered" and _broken_off(known, fact)):
        known.setdefault("answers", {})[fact.call_id] = came
    return _refused(fact, after) if fact.kind == "call_refused" and fact.cause in WAITED else ""


def _streamed(known: dict[str, JSON], fact: Any, args: JSON) -> str:
    """From here on its id stands for it, whatever a call of an answer that broke off had come to under the same one."""
    known.setdefault("proposed", {})[fact.call_id] = args
    known["coming"] = (fact.command_id, fact.attempt)
    known.setdefault("early", {})[f"{fact.command_id}.c{fact.index}"] = known["coming"]
    known.setdefault("streamed", {})[fact.call_id] = known["coming"]
    known.get("answers", {}).pop(fact.call_id, None)
    return ""


def _forget_broken_off(known: dict[str, JSON], fact: Any) -> None:
    """Drops what a call brought that an earlier attempt streamed before it broke off: the same id now names another call."""
    for call_id in known["proposed"]:
        command_id, attempt = known.get("streamed", {}).get(call_id, known["coming"])
        if command_id == fact.command_id and attempt != fact.attempt:
            known.get("answers", {}).pop(call_id, None)


def _broken_off(known: dict[str, JSON], fact: Any) -> bool:
    """Whether a call that has come back was one of an answer that broke off: no other call is made of what it brought."""
    of = known.get("early", {}).get(fact.command_id)
    return of is not None and of != known["coming"]


@on("call_issued")
def writes_do_not_meet(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No two calls of one answer write a key of a memory unless one refers to the other; where the last write wins, the one before it has come back."""
    verb, _, memory = fact.target.removeprefix("memory_").partition("_")
    if fact.call != "tool" or not fact.agent or verb not in ("write", "delete"):
        return ""
    known = seen.referred[fact.step_id]
    written = known.get("edited", {}).get(fact.call_id, {}).get("args")
    args = written or known.get("resolved", {}).get(fact.call_id) or known["proposed"][fact.call_id]
    wrote: dict[str, tuple[str, str]] = known["wrote"]
    others = [call_id for call_id, path in wrote.items() if path == (memory, args["key"]) and call_id != fact.call_id]
    wrote[fact.call_id] = (memory, args["key"])
    last_wins = next(one.conflicts for one in seen.compiled.spec.memories if one.name == memory)
    answers = known.get("answers", {})
    for other in others:
        if other in answers and "error" in answers[other]:
            continue
        if last_wins and other in answers:
            continue
        if last_wins or not _leads_to(known, fact.call_id, other):
            return f"{fact.call_id} writes {args['key']!r} of {memory}, which {other} of the same answer writes"
    return ""


def _leads_to(known: dict[str, JSON], call_id: str, other: str) -> bool:
    """Whether a call uses another, or one that does."""
    if call_id == other:
        return True
    used = {words[1] for words in _references(known["proposed"].get(call_id))}
    used |= {name for name in known["proposed"] if f"'{name}'" in known["when"].get(call_id, "")}
    return any(_leads_to(known, one, other) for one in used - {call_id} if one in known["proposed"])


def _references(node: JSON) -> list[list[str]]:
    if isinstance(node, dict) and (words := _words(node)) is not None:
        return [words]
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [words for one in inner for words in _references(one)]


def _refused(fact: Any, after: Run) -> str:
    early = _early(after, fact)
    return f"{fact.call_id} was refused before {early}, which it refers to, came back" if early else ""


def _early(after: Run, fact: Any) -> str:
    """A call that this one refers to and that is not over; empty: all of them are."""
    records = _records(after, fact)
    waits = next((one.after for one in records if one.call_id == fact.call_id), ())
    return next((one.call_id for one in records if one.call_id in waits and one.state not in OVER), "")


def _records(after: Run, fact: Any) -> list[CallRecord]:
    """The calls of the answer that is coming in, or of the last one."""
    step = after.steps[fact.step_id]
    coming = [one.record for one in step.begun if not one.broken]
    return coming or list(step.history[-1].calls if step.history else ())


def _sent(known: dict[str, JSON], fact: Any, after: Run) -> str:
    args = known.get("proposed", {}).get(fact.call_id)
    record = next((one for one in _records(after, fact) if one.call_id == fact.call_id), None)
    if record is None or not isinstance(args, dict):
        return ""
    if early := _early(after, fact):
        return f"{fact.call_id} was sent before {early}, which it refers to"
    if (written := known.get("edited", {}).get(fact.call_id)) is not None:
        as_written = (written["tool"], fingerprint(written["args"])) == (fact.target, fact.args_hash)
        return "" if as_written else f"{fact.call_id} was not sent as a person wrote it"
    if not record.args_ref or fact.call_id not in known.get("resolved", {}):
        return f"{fact.call_id} was sent with its references" if _refers(args) else ""
    try:
        followed = _followed(args, known.get("answers", {}))
    except (KeyError, IndexError, TypeError):
        return f"{fact.call_id} was sent, and what it refers to brought nothing"
    return "" if fingerprint(followed) == fact.args_hash else f"{fact.call_id} was sent with something else"


def _refers(node: JSON) -> bool:
    if isinstance(node, dict):
        return _words(node) is not None or any(map(_refers, node.values()))
    return isinstance(node, list) and any(map(_refers, node))


def _words(node: dict[str, JSON]) -> list[str] | None:
    to = node.get("$ref") if set(node) == {"$ref"} else None
    return to.split(".") if isinstance(to, str) and to.startswith("calls.") else None


def _followed(node: JSON, answers: dict[str, JSON]) -> JSON:
    if isinstance(node, list):
        return [_followed(one, answers) for one in node]
    if not isinstance(node, dict):
        return node
    words = _words(node)
    if words is None:
        return {key: _followed(one, answers) for key, one in node.items()}
    _, call_id, part, *path = words
    found = answers[call_id].get(part) if part == "error" else answers[call_id][part]
    for key in path:
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found
