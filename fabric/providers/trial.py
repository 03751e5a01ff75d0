"""A test call: sends two or three small requests to a model through its production adapter, and reports the results.

The first probe wants a word. The others show if an answer obeys a schema that the prompt does not mention, and if an
offered tool is called. All of them together have one deadline; where the first fails there is no other.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.spec.tree import ModelSpec
from fabric.core.texts.text import clean_text
from fabric.core.values.cost import Price, worst_input_tokens
from fabric.core.values.frozen import replace, value
from fabric.core.values.units import US
from fabric.runtime.ports.calls import ChatMessage, ModelPort, ModelRequest, ToolOffer

DEADLINE_S = 15.0
"""Seconds for all probes of a test call together."""
OUTPUT_TOKENS_MAX = 64
"""Output limit of one probe: models that think first may be cut short, which is an answer all the same."""
OVERHEAD_BYTES = 2_000
"""Largest size of a protocol's frame, a schema and a tool's definition around a prompt."""
ANSWER_CHARS = 120
SCHEMA = {
    "type": "object",
    "properties": {"clear": {"type": "boolean"}},
    "required": ["clear"],
    "additionalProperties": False,
}
TOOL = ToolOffer(
    name="tell_word",
    description="Tells the word.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)

Probe = Literal["word", "schema", "tool"]
PROMPTS: dict[Probe, str] = {
    "word": "Answer with one word: ready",
    "schema": "Is the sky clear when it rains?",
    "tool": "Call the tool tell_word with the word ready.",
}
PROBES: tuple[Probe, ...] = ("word", "schema", "tool")
Seen = Literal["yes", "no", "unknown"]


@value(kw_only=True)
class ProbeResult:
    """Result of one probe."""

    probe: Probe
    seen: Seen
    """True if the sought property was there; unknown: there was no answer."""
    said: str
    """Result in a sentence."""
    latency_ms: int
    input_tokens: int = 0
    output_tokens: int = 0
    billed: bool = False
    """True: it failed, and may have been billed: it counts at worst case."""


@value(kw_only=True)
class CallTestResult:
    """Result of a test call."""

    ok: bool
    said: str
    """The result or the error, in a sentence."""
    cause: str
    """``Cause`` of the first failure; empty: it answered."""
    probes: tuple[ProbeResult, ...]
    answer: str = ""
    """Beginning of the model's answer to the first probe."""
    model: str = ""
    """The endpoint's name of the answering model."""

    @property
    def latency_ms(self) -> int:
        """Return the duration of the first probe: that of one answer."""
        return self.probes[0].latency_ms if self.probes else 0

    def find_observation(self, probe: Probe) -> Seen:
        """Return a probe's observation; unknown where there was none."""
        return next((one.seen for one in self.probes if one.probe == probe), "unknown")

    def tokens(self) -> tuple[int, int]:
        """Return the tokens in and out, of all probes."""
        return sum(one.input_tokens for one in self.probes), sum(one.output_tokens for one in self.probes)

    def cost(self, price: Price | None) -> int | None:
        """Return the cost in micro-dollars; possibly billed failures count at worst case. None: the model has no
        price.
        """
        if price is None:
            return None
        lost = sum(worst_probe(one.probe, price) for one in self.probes if one.billed)
        return lost + price.cost(*self.tokens())


trial_bytes = msgspec.json.encode
_trial = msgspec.json.Decoder(CallTestResult).decode


def trial_read(raw: bytes) -> CallTestResult | None:
    """Return a trial as it was stored; None for none, and for an unreadable one."""
    try:
        return _trial(raw) if raw else None
    except msgspec.DecodeError:
        return None


def worst_probe(probe: Probe, price: Price) -> int:
    """Return the largest cost of one probe, in micro-dollars."""
    return price.cost(worst_input_tokens(len(PROMPTS[probe].encode()) + OVERHEAD_BYTES), OUTPUT_TOKENS_MAX)


def worst_cost(price: Price) -> int:
    """Return the largest cost of a test call, in micro-dollars."""
    return sum(worst_probe(probe, price) for probe in PROBES)


async def run_probes(port: ModelPort, model: ModelSpec, *, workspace: str, now: Callable[[], int]) -> CallTestResult:
    """Make the probes one after the other. ``now``: microseconds since the epoch, the adapter's clock."""
    until = now() + int(DEADLINE_S * US)
    # The fabric's declarations are what the test finds out.
    asked = model.model_copy(update={"structured_output": True, "tool_calls": True})
    first, failed, answer = await _first(port, asked, workspace, until, now)
    if failed is not None:
        return CallTestResult(ok=False, said=failed.message, cause=failed.cause.value, probes=(first,))
    more = [await _more(port, asked, probe, workspace, until, now) for probe in PROBES[1:]]
    said = clean_text(" ".join(answer.text.split()))[0][:ANSWER_CHARS] if answer else ""
    name = answer.model if answer else ""
    return CallTestResult(ok=True, said=_sum(first), cause="", probes=(first, *more), answer=said, model=name)


def _sum(first: ProbeResult) -> str:
    return f"It answered within {first.latency_ms / 1_000:.1f} s."


async def _first(
    port: ModelPort, model: ModelSpec, workspace: str, until: int, now: Callable[[], int]
) -> tuple[ProbeResult, CallFailed | None, ModelReplied | None]:
    began = now()
    # Some endpoints know no response format: the word is wanted of all.
    result = await port.ask(_request(model, "word", workspace, until))
    took = (now() - began) // 1_000
    if isinstance(result, CallFailed):
        said = ProbeResult(probe="word", seen="unknown", said=result.message, latency_ms=took, billed=result.billed)
        return said, result, None
    return _count_probe("word", "yes", "It answered.", took, result), None, result


async def _more(
    port: ModelPort, model: ModelSpec, probe: Probe, workspace: str, until: int, now: Callable[[], int]
) -> ProbeResult:
    began = now()
    result = await port.ask(_request(model, probe, workspace, until))
    took = (now() - began) // 1_000
    if isinstance(result, CallFailed):
        refused = result.status is not None and 400 <= result.status < 500 and result.status not in (408, 429)
        seen: Seen = "no" if refused else "unknown"
        return ProbeResult(probe=probe, seen=seen, said=result.message, latency_ms=took, billed=result.billed)
    found, said = _LOOKS[probe](result)
    return _count_probe(probe, "yes" if found else "no", said, took, result)


def _count_probe(probe: Probe, seen: Seen, said: str, took: int, result: ModelReplied) -> ProbeResult:
    counted = ProbeResult(probe=probe, seen=seen, said=said, latency_ms=took, input_tokens=result.input_tokens)
    return replace(counted, output_tokens=result.output_tokens)


def _check_schema(result: ModelReplied) -> tuple[bool, str]:
    try:
        found: Any = json.loads(result.text)
    except ValueError:
        found = None
    if isinstance(found, dict) and set(found) == {"clear"} and isinstance(found["clear"], bool):
        return True, "It kept to a schema that the prompt did not speak of."
    if result.finish == "length":
        return False, f"It was cut off at {OUTPUT_TOKENS_MAX} tokens before it had kept to the schema."
    return False, "It did not keep to the schema that went with the request."


def _called_tool(result: ModelReplied) -> tuple[bool, str]:
    if any(call.tool == TOOL.name and call.args is not None for call in result.calls):
        return True, "It called the tool that it was offered."
    if result.finish == "length":
        return False, f"It was cut off at {OUTPUT_TOKENS_MAX} tokens before it had called the tool."
    return False, "It did not call the tool that it was offered and told to call."


_LOOKS: dict[Probe, Callable[[ModelReplied], tuple[bool, str]]] = {"schema": _check_schema, "tool": _called_tool}


def _request(model: ModelSpec, probe: Probe, workspace: str, until: int) -> ModelRequest:
    name = f"test-{probe}-{secrets.token_hex(8)}"
    return ModelRequest(
        command_id=name,
        attempt=1,
        run_id="",
        trace_headers={},
        agent="model-test",
        model=model,
        messages=(ChatMessage("user", PROMPTS[probe]),),
        tools=(TOOL,) if probe == "tool" else (),
        output="text",
        output_schema=SCHEMA if probe == "schema" else None,
        max_output_tokens=OUTPUT_TOKENS_MAX,
        idempotency_key=name,
        deadline_at=until,
        workspace=workspace,
    )
