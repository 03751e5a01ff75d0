"""A plan of calls in an answer's text: JSON calls that may refer to each other, each with a condition, and the output that ends them (S2; semantics.md 6).

The form is S2's solution, ``{"calls": [{"id", "tool", "args", "when"}], "output": null or the stage's shape}``. It needs no tool calling of an endpoint: a model
that writes JSON can plan. What is no such object is an answer like any other agent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core.frozen import value
from fabric.core.inputs import ToolCall

JSON = Any
KEYS = frozenset({"calls", "output"})
OF_A_CALL = frozenset({"id", "tool", "args", "when"})
CALLS_MAX = 1_000
"""More are a flood: they are not even looked at."""
WHEN_MAX = 500
"""Characters of a condition."""


@value()
class CallPlan:
    """What a planning answer says."""

    calls: tuple[tuple[ToolCall, str], ...] = ()
    """Each with its condition; an empty one always holds."""
    output: JSON = None
    """What it ends with; None: nothing yet."""
    problems: tuple[str, ...] = ()


def plan_of(given: Mapping[str, JSON]) -> CallPlan | None:
    """The plan in a parsed answer; None: it is none, and the object is the output itself."""
    if not KEYS & given.keys():
        return None
    calls, output = given.get("calls"), given.get("output")
    if calls is None:
        calls = []
    if not isinstance(calls, list):
        return CallPlan(problems=("calls: a list of calls is wanted",))
    if len(calls) > CALLS_MAX:
        return CallPlan(problems=(f"calls: there are {len(calls):,}, and at most {CALLS_MAX:,} are read",))
    if not calls and output is None:
        return CallPlan(problems=("output is null and there are no calls: call a tool, or give the output",))
    found: list[tuple[ToolCall, str]] = []
    problems: list[str] = []
    for n, one in enumerate(calls):
        read = _call(one, f"calls.{n}")
        if isinstance(read, str):
            problems.append(read)
        else:
            found.append(read)
    return CallPlan(problems=tuple(problems)) if problems else CallPlan(tuple(found), output)


def _call(one: JSON, at: str) -> tuple[ToolCall, str] | str:
    """A call with its condition, or what is wrong with it."""
    if not isinstance(one, dict):
        return f"{at}: a call is an object with id, tool and args"
    unknown = sorted(str(key) for key in one.keys() - OF_A_CALL)
    if unknown:
        return f"{at}.{unknown[0][:40]}: a call has id, tool, args and when, and nothing else"
    for key in ("id", "tool"):
        if not isinstance(one.get(key), str) or not one[key].strip():
            return f"{at}.{key}: a text is wanted"
    if any(mark in one["id"] for mark in ". \t\n"):
        return f"{at}.id: without dots and spaces, so that others can refer to it"
    when = one.get("when") or ""
    if not isinstance(when, str) or len(when) > WHEN_MAX:
        return f"{at}.when: a condition in CEL of at most {WHEN_MAX} characters is wanted"
    args = one.get("args", {})
    if not isinstance(args, dict):
        return f"{at}.args: an object is wanted"
    return ToolCall(call_id=one["id"], tool=one["tool"], args=args), when.strip()
