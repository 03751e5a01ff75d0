"""Scenarios by name: what each does in one sentence, and how it answers a turn. One table, for a terminal, a demonstration or a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from simulator.endpoint import misbehaviour as mis
from simulator.endpoint import steps
from simulator.endpoint.misbehaviour import always, healthy, kernel
from simulator.endpoint.playing import Playing
from simulator.endpoint.quirks import calls, content, form, own, refusals, streams, strict
from simulator.endpoint.scenario import EVERY, Saying, Scenario

__all__ = ["SCENARIOS", "Playing", "Scenario", "named", "table", "unknown"]

COUNT_DIGITS_MAX = 9


def _refuses(status: int, message: str, code: str = "", **headers: str) -> Saying:
    return always(
        steps.refusal(
            status, message, code=code, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )
    )


SCENARIOS: Mapping[str, Scenario] = {
    "cooperative": Scenario("Does its work: calls a tool once, reads what is attached, answers in the form asked for.", healthy),
    "echo": Scenario("Answers with the last text that it got.", kernel("echo")),
    # The provider.
    "rate_limit": Scenario("Refuses with 429 and Retry-After: 2.", _refuses(429, "slow down", Retry_After="2")),
    "rate_limit_silent": Scenario("Refuses with 429 and does not say how long to wait.", _refuses(429, "slow down")),
    "quota": Scenario("Refuses with 429 because the quota is used up: waiting does not help.", _refuses(429, "you exceeded your current quota", "insufficient_quota")),
    "unavailable": Scenario("Refuses with 503.", _refuses(503, "overloaded")),
    "outage": Scenario("Three good answers, then five times 503, then good again.", _refuses(503, "overloaded"), after=3, times=5),
    "flaky": Scenario("One request in three fails (429, 503 or a dropped connection), as the seed draws it.", mis.flaky),
    "wrong_key": Scenario("Refuses with 401: the key is not accepted.", _refuses(401, "Incorrect API key provided", "invalid_api_key")),
    "unknown_model": Scenario("Refuses with 404: there is no such model.", _refuses(404, "The model does not exist", "model_not_found")),
    "not_found": Scenario("Refuses with 404, as a wrong base URL does.", _refuses(404, "Not Found")),
    "no_schema": Scenario("Refuses with 400: it does not know response_format.", _refuses(400, "Unrecognized request argument supplied: response_format")),
    "context_length": Scenario("Refuses with 400: the conversation is too long.", _refuses(400, "too long", "context_length_exceeded")),
    # The connection.
    "slow": Scenario("Answers well, ten seconds late (--delay says otherwise).", healthy, delay_s=10.0),
    "hang": Scenario("Takes the request and never says a word.", always(steps.hang())),
    "trickle": Scenario("Sends a blank five times a second, for ever: no read timeout fires.", always(steps.trickle(every_s=0.2))),
    "stall": Scenario("Sends half of the answer and goes silent; the connection stays open.", always(steps.stall())),
    "drop": Scenario("Breaks the connection in the middle of the answer, or of the stream.", always(steps.drop())),
    "hang_up": Scenario("Closes the connection without an answer.", always(steps.hang_up())),
    "cut_stream": Scenario("Ends a stream in the middle as if it were over, without [DONE]; without streaming the connection breaks.", always(steps.cut_stream())),
    "doubled_chunk": Scenario("Sends one chunk of a stream twice; without streaming the answer is good.", mis.doubled),
    # What is no completion.
    "html": Scenario("Sends a web page where JSON is wanted.", always(steps.html())),
    "nothing": Scenario("Sends 200 and an empty body.", always(steps.empty())),
    "cut_json": Scenario("Sends JSON that stops in the middle, as if it were whole.", always(steps.bad_json())),
    "error_body": Scenario("Sends 200 with an error where the answer should be.", always(steps.error_body())),
    # What is said.
    "unfit_text": Scenario("Answers with a NUL and half of a surrogate pair in the text.", mis.unfit),
    "empty": Scenario("Answers with no text and no calls.", kernel("empty")),
    "off_schema": Scenario("Answers with an object that has other fields than were asked for.", kernel("off_schema")),
    "bad_json": Scenario("Answers with an object that breaks off.", kernel("bad_json")),
    "credential": Scenario("Answers with what looks like an access key (it is none).", mis.credential),
    "ungrounded": Scenario("Answers with a citation of a document that is not there.", mis.ungrounded),
    "unsure": Scenario("Is sure of nothing: a critic's score, or a confidence, of 0.1.", mis.unsure),
    "no_such_worker": Scenario("Plans for a worker that does not exist.", mis.for_nobody),
    "needs_more": Scenario("A supervisor, or critic, that needs more information whatever it is given.", mis.needs_more),
    # Tools: where none is on offer, it does its work.
    "tool_loop": Scenario("Makes the same call, for ever.", mis.cycle(1)),
    "tool_loop_paraphrased": Scenario("Makes the same call in slightly other words, for ever.", mis.paraphrased),
    "tool_loop_of_2": Scenario("Makes two calls in turn, A B A B, for ever.", mis.cycle(2)),
    "tool_loop_of_3": Scenario("Makes three calls in turn, A B C A B C, for ever.", mis.cycle(3)),
    "tool_loop_changing": Scenario("Makes the same call for ever, and says each time what has changed in its result.", mis.changing),
    "unknown_tool": Scenario("Calls a tool that was not offered.", mis.unknown_tool),
    "bad_arguments": Scenario("Calls a tool with JSON that breaks off.", mis.bad_arguments),
    "flood": Scenario("Makes 200 calls in one answer, then does its work.", mis.flood),
    "cost_spike": Scenario("Says that each answer took 50,000 tokens, and makes another call each time.", mis.cost_spike),
    "spender": Scenario("Makes seven calls, each billed for 20,000 tokens in and 4,000 out, then does its work.", mis.spender(7, (20_000, 4_000))),
    "spender_slow": Scenario("Makes nine calls, each billed for 5,000 tokens in and 1,000 out, then does its work (--delay 10: ten seconds apart).", mis.spender(9, (5_000, 1_000))),
    "spawning": Scenario("Gives the work to one more agent each time, or plans for 200 of them.", mis.spawning),
    "ping_pong": Scenario("Hands the work over each time it gets it, A B A B.", mis.ping_pong(2)),
    "ping_pong_of_3": Scenario("Hands the work over in a ring of three, A B C A B C, where the tool says to whom.", mis.ping_pong(3)),
    # The real world.
    **calls.SCENARIOS,
    **content.SCENARIOS,
    **form.SCENARIOS,
    **own.SCENARIOS,
    **streams.SCENARIOS,
    **strict.SCENARIOS,
    **refusals.SCENARIOS,
}  # fmt: skip
"""By what ``--scenario`` takes."""


COUNTED: Mapping[str, Callable[[int], Scenario]] = {"cut_after": streams.cut_after, "drop_after": streams.drop_after}
"""Scenarios that take a number: ``cut_after=7``."""


def named(name: str) -> Scenario | None:
    """A scenario by its name, or by its name and a number; None: there is none."""
    head, sign, number = name.partition("=")
    if not sign:
        return SCENARIOS.get(name)
    if head in COUNTED and number.isascii() and number.isdigit() and len(number) <= COUNT_DIGITS_MAX:
        return COUNTED[head](int(number))
    return None


def unknown(name: str) -> str:
    """The sentence about a name that no scenario has."""
    head, sign, number = name.partition("=")
    if sign and head in COUNTED:
        return f"--scenario: {head} takes a whole number from 0 on, not {number!r}"
    near = get_close_matches(head, SCENARIOS, n=3, cutoff=0.5)
    if not near:
        return f"--scenario: there is no {name!r}; --list says what there is"
    return f"--scenario: there is no {name!r}; did you mean {' or '.join(near)}? --list says what there is"


def table() -> str:
    """The scenarios as a table of ``docs/endpoint.md``."""
    rows = ["| scenario | what it does | protocols |", "|---|---|---|"]
    for name, one in SCENARIOS.items():
        sentence = one.sentence.replace("|", "\\|").replace("<", "&lt;")
        rows.append(f"| `{name}` | {sentence} | {'all' if one.protocols == EVERY else ', '.join(one.protocols)} |")
    return "\n".join(rows) + "\n"
