"""What a tool's result means to the conversation that it is called in: a function returns ``Handoff`` or ``Finish``; of another tool its declaration lets its JSON say so."""

from __future__ import annotations

from typing import Any

from fabric.adapters.tools.outcome import ToolError
from fabric.core.graph.state import Finish, Handoff
from fabric.core.saga import Outcome
from fabric.core.spec_tools import ToolSpec

JSON = Any
Returned = Handoff | Finish
NAMES_MAX = 63
REASON_MAX = 200


def as_json(returned: Returned) -> JSON:
    """What stands for it in a result, where a process or a model reads it."""
    if isinstance(returned, Handoff):
        return {"handoff": {"target": returned.target, "reason": returned.reason}}
    return {"finish": {"reason": returned.reason}}


def taken(spec: ToolSpec, result: JSON) -> tuple[JSON, Returned | None]:
    """A result as the model is shown it, and what it means. ToolError where it says that it hands over and does not say to whom."""
    typed = isinstance(result, Handoff | Finish)
    found = read(as_json(result) if typed else result) if typed or spec.hands_over else None
    return result if found is None else _shown(found), found


def read(result: JSON) -> Returned | None:
    """What JSON says; None: nothing. ToolError where it is neither a handoff nor an end, and says that it is one."""
    if not isinstance(result, dict) or len(result) != 1 or not {"handoff", "finish"} & set(result):
        return None
    (kind, given), *_ = result.items()
    fields = given if isinstance(given, dict) else {}
    target, reason = fields.get("target", ""), fields.get("reason", "")
    if not isinstance(reason, str) or not isinstance(target, str) or (kind == "handoff" and not target):
        said = f'its result is no {kind}; give {{"{kind}": {{"target": "a name", "reason": "why"}}}}'
        raise ToolError(said, outcome=Outcome.ANSWERED)
    if kind == "handoff":
        return Handoff(target[:NAMES_MAX], reason[:REASON_MAX])
    return Finish(reason[:REASON_MAX] or Finish().reason)


def _shown(returned: Returned) -> JSON:
    if isinstance(returned, Handoff):
        return {"handed_to": returned.target, "reason": returned.reason}
    return {"finished": returned.reason}
