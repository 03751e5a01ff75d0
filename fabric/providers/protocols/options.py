"""Checks a model's ``ModelSpec.options``, and puts the further fields of ``extra_body`` into the request's body.

A field passes if it neither costs, nor speaks, nor chooses another model. The operator permits further ones by name
(FABRIC_EXTRA_BODY).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from fabric.core.values.units import JSON

EXTRA = "extra_body"
HARMLESS = frozenset(
    {
        # Sampling: OpenAI, vLLM, llama.cpp, Ollama, Anthropic, Google, Bedrock.
        "top_k",
        "min_p",
        "typical_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "repeat_penalty",
        "additionalModelRequestFields.top_k",
        "generationConfig.frequencyPenalty",
        "generationConfig.presencePenalty",
        "generationConfig.topK",
        # Reasoning: its tokens count as output, under the cap of every call.
        "enable_thinking",
        "chat_template_kwargs.enable_thinking",
        "reasoning_effort",
        "reasoning.effort",
        "reasoning.summary",
        "thinking.type",
        "thinking.budget_tokens",
        "output_config.effort",
        "additionalModelRequestFields.thinking.type",
        "additionalModelRequestFields.thinking.budget_tokens",
        "generationConfig.thinkingConfig.includeThoughts",
        "generationConfig.thinkingConfig.thinkingBudget",
        "generationConfig.thinkingConfig.thinkingLevel",
        # Form and bookkeeping.
        "verbosity",
        "text.verbosity",
        "cache_prompt",
        "metadata.user_id",
        "prompt_cache_key",
        "safety_identifier",
        "user",
    }
)
"""Fields by their names on the wire, with a dot for a nested field. Their values are texts, numbers, true or false."""
VALUE_CHARS_MAX = 500
DEPTH_MAX = 8
STOPS_MAX = 16


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_switch(value: JSON) -> bool:
    return isinstance(value, bool)


def _is_one_of(*words: str) -> Callable[[JSON], bool]:
    return lambda value: value in words


def _are_stops(value: JSON) -> bool:
    texts = value if isinstance(value, list) else [value]
    return len(texts) <= STOPS_MAX and all(isinstance(one, str) and len(one) <= VALUE_CHARS_MAX for one in texts)


VALUES: Mapping[str, tuple[Callable[[JSON], bool], str]] = {
    "api": (_is_one_of("chat", "responses"), "chat or responses"),
    "max_tokens_field": (_is_one_of("max_tokens", "max_completion_tokens"), "max_tokens or max_completion_tokens"),
    "parallel_tool_calls": (_is_switch, "true or false"),
    "reasoning_back": (_is_one_of("with_calls", "always", "never"), "with_calls, always or never"),
    "response_format": (_is_one_of("json_schema", "json_object"), "json_schema or json_object"),
    "schema_with_tools": (_is_switch, "true or false"),
    "seed": (_is_number, "a number"),
    "stop_sequences": (_are_stops, f"a list of at most {STOPS_MAX} short texts"),
    "store": (_is_switch, "true or false"),
    "stream": (_is_switch, "true or false"),
    "strict_turns": (_is_switch, "true or false"),
    "system_role": (_is_one_of("system", "developer", "user"), "system, developer or user"),
    "temperature": (_is_number, "a number"),
    "top_p": (_is_number, "a number"),
}
"""Permitted values of each option, with the words for them. A test shows that it is total; Azure and Vertex AI judge
their own options.
"""


def problem(options: Mapping[str, JSON], allowed: Collection[str] = ()) -> str:
    """Return the reason why a model's options are refused; empty: there is none. ``allowed``: the operator's further
    names.
    """
    for name, value in options.items():
        check, words = VALUES.get(name, (None, ""))
        if check is not None and value is not None and not check(value):
            return f"options.{name} is {str(value)[:80]!r}; write {words}"
    return _problem_of_extra(options.get(EXTRA), allowed)


def _problem_of_extra(extra: JSON, allowed: Collection[str]) -> str:
    if extra is None:
        return ""
    if not isinstance(extra, Mapping):
        return f"options.{EXTRA} is no object; write field: value"
    for name, value in _leaves(extra):
        if not _is_let_through(name, allowed):
            return (
                f"options.{EXTRA}.{name} is not sent: it may change what a call costs, says or asks; "
                f"leave it out, or have the operator add {name} to FABRIC_EXTRA_BODY"
            )
        if name in HARMLESS and (not isinstance(value, str | int | float) or len(str(value)) > VALUE_CHARS_MAX):
            return f"options.{EXTRA}.{name} is no number, no short text, and neither true nor false"
    return ""


def extend_body(body: dict[str, JSON], options: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the body with the further fields of a model's options. The body's own fields stay."""
    extra = options.get(EXTRA)
    return _merge_options(extra, body) if extra else body


def _merge_options(under: Mapping[str, JSON], over: Mapping[str, JSON]) -> dict[str, JSON]:
    both = under.keys() & over.keys()
    inner = {
        name: _merge_options(under[name], over[name])
        for name in both
        if isinstance(under[name], Mapping) and isinstance(over[name], Mapping)
    }
    return {**under, **over, **inner}


def _leaves(extra: Mapping[str, JSON], before: str = "", depth: int = 1) -> Iterator[tuple[str, JSON]]:
    """Yield the values of an object within objects, each with its dotted name."""
    for key, value in extra.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping) and value and depth < DEPTH_MAX:
            yield from _leaves(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _is_let_through(name: str, allowed: Collection[str]) -> bool:
    """Return True if the operator names a field, or the object around it."""
    parts = name.split(".")
    return name in HARMLESS or any(".".join(parts[: n + 1]) in allowed for n in range(len(parts)))
