"""Instructions to agents about the shape of their answers, in words."""

from __future__ import annotations

from collections.abc import Mapping

SHAPES: Mapping[str, str] = {
    "plan": (
        'Answer with one JSON object and nothing else: {"goal": "...", "briefs": [{"agent": "...", "title": "...", '
        '"instructions": "..."}], "exit_criteria": ["..."]}. Name at least one exit criterion.'
    ),
    "summary": (
        'Answer with one JSON object and nothing else: {"text": "...", "citations": ["..."]}. '
        "citations lists the names of the attached documents that support the text; leave it empty if there are none."
    ),
    "typed": (
        'Answer with one JSON object and nothing else: {"text": "...", "citations": ["..."], "data": ...}. '
        "citations lists the names of the attached documents that support the text; leave it empty if there are none. "
        "data is JSON that fits the schema that you were given for it."
    ),
    "critique": (
        'Answer with one JSON object and nothing else: {"score": 0.0, "reasons": ["..."]}. '
        "score is between 0 and 1: how well the result meets the exit criteria."
    ),
    "judgement": (
        'Answer with one JSON object and nothing else: {"accept": true, "score": 0.0, "findings": [], "evidence": ["..."]}. '
        "accept is true or false. findings says what is wrong, one sentence each: none when you accept, at least one when you do not. "
        "evidence gives the facts that support your verdict, at least one sentence. score is between 0 and 1: how sure you are."
    ),
    "verdict": (
        'Answer with one JSON object and nothing else: {"winner": "...", "text": "...", "citations": ["..."]}. '
        "winner is the name of the side whose proposal you choose. text gives your reasons. "
        "citations lists the names of the attached documents that support your reasons; leave it empty if there are none."
    ),
    "text": "Answer in plain words. Cite an attached document by its name in square brackets.",
}
"""Instruction for each shape of answer; endpoints that accept a schema get that as well."""
PLANNING = (
    'To call tools, answer {"calls": [...], "output": null} instead of that object. Each call is {"id": "a", "tool": "...", "args": {...}}. An argument may '
    'be {"$ref": "calls.a.result"} or a path in that result, such as "calls.a.result.rows.0.id", where a is an earlier call. Calls that refer to no other '
    'call run at the same time. A call may have "when", a condition in CEL such as "calls.a.error == null"; it runs only if the condition is true. '
    "You then receive the results. Once you have your answer, put the object above into output."
)
"""Instruction to an agent that plans its calls, after the shape of its answer."""
PLACES = 'Marks such as [page 3] and [row 12] in a document name its places. To cite a place, write it after the name, as in "report.pdf, page 3".'
"""The form of a citation with a place; it stands before documents that have places."""
DATA_SCHEMA = "The schema of data, a JSON schema: "
"""Words before an author's schema, on a line of their own."""
