"""How agents are told the shape of their answers, in words."""

from __future__ import annotations

from collections.abc import Mapping

SHAPES: Mapping[str, str] = {
    "plan": (
        'Answer with one JSON object and nothing else: {"goal": "...", "briefs": [{"agent": "...", "title": "...", '
        '"instructions": "..."}], "exit_criteria": ["..."]}. Name at least one exit criterion.'
    ),
    "summary": (
        'Answer with one JSON object and nothing else: {"text": "...", "citations": ["..."]}. '
        "citations are names of attached documents that the text rests on; leave the list empty when there are none."
    ),
    "typed": (
        'Answer with one JSON object and nothing else: {"text": "...", "citations": ["..."], "data": ...}. '
        "citations are names of attached documents that the text rests on; leave the list empty when there are none. "
        "data is JSON that fits the schema that you were given for it."
    ),
    "critique": (
        'Answer with one JSON object and nothing else: {"score": 0.0, "reasons": ["..."]}. '
        "score is between 0 and 1: how well the result meets the exit criteria."
    ),
    "judgement": (
        'Answer with one JSON object and nothing else: {"accept": true, "score": 0.0, "findings": [], "evidence": ["..."]}. '
        "accept is true or false. findings says what is wrong, one sentence each: none when you accept, at least one when you do not. "
        "evidence says what your verdict rests on, at least one sentence. score is between 0 and 1: how sure you are."
    ),
    "verdict": (
        'Answer with one JSON object and nothing else: {"winner": "...", "text": "...", "citations": ["..."]}. '
        "winner is the name of the side whose proposal you are for. text says why. "
        "citations are names of attached documents that your reasons rest on; leave the list empty when there are none."
    ),
    "text": "Answer in plain words. Cite an attached document by its name in square brackets.",
}
"""How an agent is told the shape of its answer; endpoints that can be constrained get the schema as well."""
PLANNING = (
    'Instead of that object alone you may answer {"calls": [...], "output": null}: calls of tools that are made for you, as {"id": "a", "tool": "...", '
    '"args": {...}}. An argument may be {"$ref": "calls.a.result"} or a path in it such as "calls.a.result.rows.0.id", where a is an earlier call; calls that '
    'refer to nothing are made side by side. A call may have "when", a condition in CEL such as "calls.a.error == null", and is left out where it does not '
    "hold. You are told what they gave. Put the object above into output once you have it."
)
"""How an agent that plans its calls is told to; it stands behind the shape of its answer."""
PLACES = 'Marks such as [page 3] and [row 12] in a document are its places: cite one behind the name, as in "report.pdf, page 3".'
"""The form of a citation with a place; it stands before documents that have places."""
DATA_SCHEMA = "The schema of data, a JSON schema: "
"""What stands before an author's schema, in a line of its own."""
