"""Names the setting of a fabric's model that mends a request its endpoint does not take: one table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_W = re.IGNORECASE
_REFUSED = (
    r"(?:unsupported|unrecognized|unrecognised|unknown|unexpected|extra (?:inputs|fields)|invalid (?:parameter|argument)s?"
    r"|no endpoints found that support|(?:does|do)(?: not|n't) support|must be verified|cannot (?:use|set|specify))"
)
_REFUSING = (
    r"(?:not (?:supported|permitted|allowed|enabled|available|implemented|compatible)"
    r"|unsupported|unknown|unrecognized|deprecated|cannot|can't|must be|only supports?|requires?|extra inputs|extra fields"
    r"|isn't|unavailable|does(?: not|n't) (?:support|exist))"
)
_WITHIN = r"(?:[^.]|\.(?=\w)){0,60}?"
"""The rest of a sentence between the two."""
_CODES = ("unsupportedparameter", "unsupportedvalue", "unknownparameter", "extraforbidden", "invalidparameter")


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that an endpoint may refuse, and what to set."""

    names: str
    """A pattern of what the endpoint calls it."""
    do: str
    """The advice, with ``{name}`` for the model's name in the fabric."""
    refused: str = ""
    """A pattern of how it is refused; empty: any of the usual ways."""

    def fits(self, message: str, param: str, codes: tuple[str, ...]) -> bool:
        """Returns True where a refusal is of this."""
        named = re.fullmatch(self.names, param, _W) is not None
        if self.refused:
            return re.search(rf"\b(?:{self.names})\b.{{0,80}}?(?:{self.refused})", message, _W | re.DOTALL) is not None
        if named:
            return bool(_any_way.search(message)) or any(code in _CODES for code in codes)
        whole = rf"(?<![\w-])(?:{self.names})(?![\w-])"
        behind, before = rf"\b{_REFUSED}\b{_WITHIN}{whole}", rf"{whole}{_WITHIN}\b{_REFUSING}"
        return re.search(rf"{behind}|{before}", message, _W) is not None


_any_way = re.compile(rf"\b(?:{_REFUSED}|{_REFUSING})", _W)


def _without(option: str) -> str:
    return f"take `{option}` out of the options of the fabric's model {{name!r}}"


def _option(option: str, value: str) -> str:
    return f"set the option `{option}: {value}` of the fabric's model {{name!r}}"


def _field(field: str, value: str) -> str:
    return f"set `{field}: {value}` on the fabric's model {{name!r}}"


SCHEMA_NAMES = (
    r"response_format|response_?json_?schema|response_?mime_?type|response_?schema|json_schema|json_object|json mode"
    r"|structured[ _-]?outputs?|guided_json|grammar|output_config|output_format"
)
SCHEMA_OFF = _field("structured_output", "false")
ADVICE: tuple[Advice, ...] = (
    Advice(
        r"max_(?:completion_|output_)?tokens|maxOutputTokens",
        "give the agents that use the fabric's model {name!r} a smaller `max_output_tokens`",
        r"too large|at most|maximum allowed|less than or equal|exceeds the|supported range",
    ),
    Advice(r"max_tokens", _option("max_tokens_field", "max_completion_tokens")),
    Advice(r"max_completion_tokens", _option("max_tokens_field", "max_tokens")),
    Advice(r"stream|streaming|stream_options|streamGenerateContent|to stream", _option("stream", "false")),
    Advice(
        r"parallel_tool_calls|disable_parallel_tool_use|parallel (?:tool|function) calls",
        _without("parallel_tool_calls"),
    ),
    Advice(
        r"(?:function calling|tools?|tool use)",
        _option("schema_with_tools", "false"),
        r"(?:with|and|together with) (?:a )?(?:response (?:mime ?type|format|schema)|response_format|json mode|structured output)",
    ),
    Advice(
        SCHEMA_NAMES,
        SCHEMA_OFF,
    ),
    Advice(r"tool_choice|tool choice|toolConfig", _field("tool_calls", "false")),
    Advice(r"tools?(?: param| use| calls?| calling)?|functions?(?: call(?:s|ing)?)?", _field("tool_calls", "false")),
    Advice(r"temperature", _without("temperature")),
    Advice(r"top_p|topP", _without("top_p")),
    Advice(r"stop|stop_sequences|stopSequences|stop sequences?", _without("stop_sequences")),
    Advice(r"seed", _without("seed")),
    Advice(
        r"(?:system|developer) (?:role|messages?|instructions?|prompts?)|role:? ['\"`]?(?:system|developer)['\"`]?"
        r"|['\"`](?:system|developer)['\"`](?: role)?",
        _option("system_role", "user"),
    ),
    Advice(
        r"roles?|messages?|turns?|user and assistant|tool",
        _option("strict_turns", "true"),
        r"must alternate|should alternate|alternate between|after (?:the )?role ['\"`]?tool|unexpected role",
    ),
    Advice(
        r"encrypted content|reasoning(?:\.encrypted_content|_content|_details)?|thinking(?:_blocks)?|extra_content|provider_specific_fields",
        _option("reasoning_back", "never"),
        r"unsupported|not supported|not permitted|unknown|unexpected|extra",
    ),
)
"""Refusals, and the advice for each; the first row that fits counts."""


def advice_on(said: Mapping[str, str], codes: tuple[str, ...]) -> str:
    """Returns the advice, with ``{name}`` for the fabric's name of the model; empty: this program knows none. ``said``: ``bodies.error_of``; ``codes``: plain."""
    message, param = said.get("message", ""), said.get("param", "").rpartition(".")[2]
    return next((row.do for row in ADVICE if row.fits(message, param, codes)), "")
