"""Reads the next speaker and the changed context variables from a tool's result.

A function returns ``Handoff``, ``Finish`` or ``RoundWrote``; another tool's declaration allows its JSON to have them.
"""

from __future__ import annotations

from fabric.core.graph.state import Finish, Handoff, RoundWrote, Writes
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.topologies.conversation import WRITES_MAX
from fabric.core.texts.text import clean
from fabric.core.values.fingerprint import encode
from fabric.core.values.saga import Outcome
from fabric.core.values.units import JSON
from fabric.tools.answers.outcome import ToolError

Returned = Handoff | Finish
NAMES_MAX = 63
REASON_MAX = 200
KEY_MAX = 200
WRITES_BYTES = 100_000
SET, DELETE, LEADS = "set_context", "delete_context", ("handoff", "finish")
"""Fields of such a result."""


def as_json(returned: Returned | RoundWrote) -> JSON:
    """Return the JSON that represents it in a result, for a process or a model."""
    if isinstance(returned, RoundWrote):
        then = {} if returned.then is None else as_json(returned.then)
        wrote = {SET: dict(returned.writes.set), DELETE: list(returned.writes.delete)}
        return {**wrote, "result": returned.result, **then}
    if isinstance(returned, Handoff):
        return {"handoff": {"target": returned.target, "reason": returned.reason}}
    return {"finish": {"reason": returned.reason}}


def take_result(spec: ToolSpec, result: JSON) -> tuple[JSON, Returned | None, Writes | None]:
    """Return a result's visible part, its choice of the next speaker, and its writes. Raises ToolError where one of
    them is malformed.
    """
    typed = isinstance(result, Handoff | Finish | RoundWrote)
    found = read_handover(as_json(result) if typed else result) if typed or spec.hands_over else None
    if isinstance(found, RoundWrote):
        shown = _visible_part(found.then) if found.result is None and found.then is not None else found.result
        return shown, found.then, found.writes
    return (result if found is None else _visible_part(found)), found, None


def read_handover(result: JSON) -> Returned | RoundWrote | None:
    """Read a handoff, an end or changed variables from JSON; None: there are none. Raises ToolError for malformed
    ones.
    """
    if not isinstance(result, dict) or not {SET, DELETE, *LEADS} & set(result):
        return None
    if {SET, DELETE} & set(result) and set(result) <= {SET, DELETE, "result", *LEADS}:
        leads = {name: result[name] for name in LEADS if name in result}
        return RoundWrote(_writes(result), result.get("result"), _read_finish(leads) if leads else None)
    return _read_finish(result) if len(result) == 1 else None


def _read_finish(result: dict[str, JSON]) -> Returned:
    (kind, given), *more = result.items()
    fields = given if isinstance(given, dict) else {}
    target, reason = fields.get("target", ""), fields.get("reason", "")
    if more or not isinstance(reason, str) or not isinstance(target, str) or (kind == "handoff" and not target):
        said = f'its result is no {kind}; give {{"{kind}": {{"target": "a name", "reason": "why"}}}}'
        raise ToolError(said, outcome=Outcome.ANSWERED)
    if kind == "handoff":
        return Handoff(target[:NAMES_MAX], reason[:REASON_MAX])
    return Finish(reason[:REASON_MAX] or Finish().reason)


def _writes(result: dict[str, JSON]) -> Writes:
    sets, deletes = result.get(SET) or {}, result.get(DELETE) or []
    named = [*sets, *deletes] if isinstance(sets, dict) and isinstance(deletes, list) else [None]
    if len(named) > WRITES_MAX or not all(isinstance(key, str) and 1 <= len(key) <= KEY_MAX for key in named):
        said = (
            f'its result changes no variables; give {{"{SET}": {{"a name": "a value"}}}}, at most {WRITES_MAX} of them'
        )
        raise ToolError(said, outcome=Outcome.ANSWERED)
    try:
        kept = clean({"set": sets, "delete": deletes})[0]
    except (ValueError, RecursionError) as error:
        raise ToolError(f"what it writes to the variables is refused: {error}", outcome=Outcome.ANSWERED) from None
    if len(encode(kept)) > WRITES_BYTES:
        raise ToolError(
            f"it writes more than {WRITES_BYTES:,} bytes of variables; write less", outcome=Outcome.ANSWERED
        )
    return Writes(delete=tuple(kept["delete"]), set=kept["set"])


def _visible_part(returned: Returned) -> JSON:
    if isinstance(returned, Handoff):
        return {"handed_to": returned.target, "reason": returned.reason}
    return {"finished": returned.reason}
