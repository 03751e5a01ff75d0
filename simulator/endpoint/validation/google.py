"""The refusals of Google's ``generateContent``, in Google's words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Refusal
from simulator.endpoint.protocols.google import read_field
from simulator.endpoint.validation.names import Body

CALLS_FOLLOW = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
RESPONSES_FOLLOW = "Please ensure that function response turn comes immediately after a function call turn."
AS_MANY = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
USER_LAST = "Please ensure that single turn requests end with a user role or the role field is empty."
ALTERNATE = "Please ensure that multiturn requests alternate between user and model."


def _build_refusal(message: str) -> Refusal:
    return Refusal(400, message)


def _parts(content: Body, kind: str) -> list[JSON]:
    return [one for part in content.get("parts") or () if (one := read_field(part, kind)) is not None]


def check_required(body: Body) -> Iterator[Refusal]:
    """Yield a refusal for missing contents, contents without parts, and unknown roles."""
    if not body.get("contents"):
        yield _build_refusal("* GenerateContentRequest.contents: contents is not specified\n")
    for at, content in enumerate(body["contents"]):
        if content.get("role") not in (None, "user", "model", "function"):
            yield _build_refusal("Please use a valid role: user, model.")
        if not content.get("parts"):
            yield _build_refusal(f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.\n")
        for number, part in enumerate(content.get("parts") or ()):
            if not part.keys() - {"thought", "thoughtSignature"}:
                where = f"GenerateContentRequest.contents[{at}].parts[{number}].data"
                yield _build_refusal(f"* {where}: required oneof field 'data' must have one initialized field\n")


def content(body: Body) -> Iterator[Refusal]:
    """No text is empty, as Vertex has it."""
    for content in body.get("contents") or ():
        if any(part.get("text") == "" for part in content.get("parts") or ()):
            yield _build_refusal(
                "Unable to submit request because it must have a text parameter. Add a text parameter and try again."
            )


def check_answers(body: Body) -> Iterator[Refusal]:
    """The turn behind the calls has as many responses as calls. Calls follow the user or a response."""
    contents = body.get("contents") or []
    for at, content in enumerate(contents):
        calls, responses = _parts(content, "functionCall"), _parts(content, "functionResponse")
        before: Body = contents[at - 1] if at else {}
        if calls and (before.get("role") or "user") == "model" and not _parts(before, "functionResponse"):
            yield _build_refusal(CALLS_FOLLOW)
        if calls and not at:
            yield _build_refusal(CALLS_FOLLOW)
        if calls and at + 1 < len(contents) and len(_parts(contents[at + 1], "functionResponse")) != len(calls):
            yield _build_refusal(AS_MANY)
        if responses and not _parts(before, "functionCall"):
            yield _build_refusal(RESPONSES_FOLLOW)


def check_alternation(body: Body) -> Iterator[Refusal]:
    """Users and models alternate, as the older models have it."""
    roles = ["model" if one.get("role") == "model" else "user" for one in body.get("contents") or ()]
    if any(before == role for before, role in pairwise(roles)):
        yield _build_refusal(ALTERNATE)


def last(body: Body) -> Iterator[Refusal]:
    """The last turn is the user's."""
    if body.get("contents") and body["contents"][-1].get("role") == "model":
        yield _build_refusal(USER_LAST)


def google(body: Body) -> Iterator[Refusal]:
    """Yield the refusals of all rules but the one about names."""
    for check in (check_required, check_answers, last):
        yield from check(body)
