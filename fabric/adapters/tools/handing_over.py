"""Reads the next speaker and the changed context variables from a tool's result.

A function returns ``Handoff``, ``Finish`` or ``Wrote``; of another tool its declaration lets its JSON say so.
"""

from __future__ import annotations

from typing import Any

from fabric.adapters.tools.outcome import ToolError
from fabric.core.fingerprint import encode
from fabric.core.graph.state import Finish, Handoff, Writes, Wrote
from fabric.core.saga import Outcome
from fabric.core.spec_conversation import WRITES_MAX
from fabric.core.spec_tools import ToolSpec
from fabric.core.text import clean

JSON = Any
Returned = Handoff | Finish
NAMES_MAX = 63
REASON_MAX = 200
KEY_MAX = 200
WRITES_BYTES = 100_000
SET, DELETE, LEADS = "set_context", "delete_context", ("handoff", "finish")
"""Fields of a result that says so."""


def as_json(returned: Returned | Wrote) -> JSON:
    """What stands for it in a result, where a process or a model reads it."""
    if isinstance(returned, Wrote):
        then = {} if returned.then is None else as_json(returned.then)
        wrote = {SET: dict(returned.writes.set), DELETE: list(returned.writes.delete)}
        return {**wrote, "result": returned.result, **then}
    if isinstance(returned, Handoff):
        return {"handoff": {"target": returned.target, "reason": returned.reason}}
    return {"finish": {"reason": returned.reason}}


def taken(spec: ToolSpec, result: JSON) -> tuple[JSON, Returned | None, Writes | None]:
    """A result as the model is shown it, who speaks next by it, and what it writes. ToolError where it says one of them and does not say it right."""
    typed = isinstance(result, Handoff | Finish | Wrote)
    found = read(as_json(result) if typed else result) if typed or spec.hands_over else None
    if isinstance(found, Wrote):
        shown = _shown(found.then) if found.result is None and found.then is not None else found.result
        return shown, found.then, found.writes
    return (result if found is None else _shown(found)), found, None


def read(result: JSON) -> Returned | Wrote | None:
    """Reads a handoff, an end or changed variables from JSON; None: it is none of them. ToolError for a malformed one."""
    if not isinstance(result, dict) or not {SET, DELETE, *LEADS} & set(result):
        return None
    if {SET, DELETE} & set(result) and set(result) <= {SET, DELETE, "result", *LEADS}:
        leads = {name: result[name] for name in LEADS if name in result}
        return Wrote(_writes(result), result.get("result"), _leading(leads) if leads else None)
    return _leading(result) if len(result) == 1 else None


def _leading(result: dict[str, JSON]) -> Returned:
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


def _shown(returned: Returned) -> JSON:
    if isinstance(returned, Handoff):
        return {"handed_to": returned.target, "reason": returned.reason}
    return {"finished": returned.reason}
