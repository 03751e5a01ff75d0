"""Counts the tokens that one model call is charged, from its endpoint's report and the bytes that were exchanged.

A reported count is believed if it is possible. Every doubt is settled against us, so that no call is booked below its
bill.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.values.cost import NO_PARTS, TokenParts, worst_input_tokens
from fabric.core.values.frozen import value

TOKENS_MAX = 1_000_000_000
"""Largest credible count of tokens; no context has room for more."""
COUNT_DIGITS = 19
"""Digits of a count in text that are read; a longer one is absurd by its first ones."""
BYTES_PER_TOKEN = 4
"""The average of plain text, about."""
FAR_OFF = 10
"""A count this many times below ``bytes / BYTES_PER_TOKEN`` is not believed. One this many times above is charged
and reported.
"""
LEAST_BYTES = 1_000
"""Least bytes for the check of a count that is too large. An endpoint's own additions weigh more on a short text."""
FLOOR_BYTES = 8
"""Bytes that are charged as one token where a count is far too small."""


@value(kw_only=True)
class ReportedTokens:
    """Token counts as an endpoint reports them. None: not reported. Use ``whole`` on the values in its JSON."""

    input: int | None = None
    output: int | None = None
    total: int | None = None
    cached: int | None = None
    """Input read from the provider's cache."""
    cache_written: int | None = None
    reasoning: int | None = None
    audio_in: int | None = None
    audio_out: int | None = None
    cached_inside: bool | None = None
    """True: ``input`` includes ``cached`` and ``cache_written``, as OpenAI's does and Anthropic's does not. None:
    the counts show it.
    """
    reasoning_inside: bool | None = None
    """True: ``output`` includes ``reasoning``, as OpenAI's does and Google's does not. None: the counts show it."""


@value(kw_only=True)
class MeteredTokens:
    """The tokens that one call is charged."""

    input_tokens: int
    """All input tokens, whatever their price."""
    output_tokens: int
    parts: TokenParts = NO_PARTS
    """Never more than the input and the output that they are part of."""
    problem: str = ""
    """The counts that are not believed, and the amount charged instead; "": all are believed."""


def whole(given: Any) -> int | None:
    """Return a count in JSON as an integer, even if it is written as text. None: it is no whole number."""
    if isinstance(given, str) and given.strip().isascii() and given.strip().isdecimal():
        return int(given.strip()[:COUNT_DIGITS])
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    if isinstance(given, float):
        return int(given) if given.is_integer() else None
    return given


def meter_call(
    *, reported: ReportedTokens, prompt_bytes: int, answer_bytes: int, max_output_tokens: int
) -> MeteredTokens:
    """Return the tokens to charge. ``prompt_bytes``: of the messages, calls and tools that were sent;
    ``answer_bytes``: of its text, thinking and calls, UTF-8.

    A count that is missing, zero, negative or absurd is charged at its worst case. One that is far too small for the
    bytes is charged at a token for each eight bytes. Cached tokens and reasoning that lie outside the reported counts
    are added. One that is far too large is charged, and ``problem`` says so.
    """
    problems: list[str] = []
    written, cached = _part(reported.cache_written), _part(reported.cached)
    reasoning = _part(reported.reasoning)
    tokens_in, outside = _add_cache(reported, cached + written)
    tokens_out, thought = _add_reasoning(reported, reasoning)
    if outside:
        problems.append(outside)
    if tokens_in is not None and tokens_out is not None:
        more_in, more_out = _split_surplus(reported, tokens_in + tokens_out, 0 if thought else reasoning)
        tokens_in, tokens_out = tokens_in + more_in, tokens_out + more_out
        if more_in:
            problems.append(
                f"the endpoint's total is {more_in:,} tokens above its parts, which are charged as input tokens"
            )
    charged_in = _charge_tokens(
        tokens_in, reported.input, "input", prompt_bytes, worst_input_tokens(prompt_bytes), problems
    )
    at_most = max(min(answer_bytes, max_output_tokens), _floor(answer_bytes))
    charged_out = _charge_tokens(tokens_out, reported.output, "output", answer_bytes, at_most, problems)
    charged_in = _up_to_total(reported, charged_in, charged_out, problems)
    # Tokens from a cache are cheaper, so they count only inside a believed input.
    discount = cached if charged_in == tokens_in else 0
    charged_in, charged_out = max(charged_in, written), max(charged_out, reasoning)
    problems += _too_many(reported, charged_in, charged_out, prompt_bytes, answer_bytes, max_output_tokens)
    return MeteredTokens(
        input_tokens=charged_in,
        output_tokens=charged_out,
        parts=_parts(reported, charged_in, charged_out, discount),
        problem="; ".join(problems),
    )


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= TOKENS_MAX else None


def _part(count: int | None) -> int:
    return count if count is not None and 0 < count <= TOKENS_MAX else 0


def _add_cache(reported: ReportedTokens, cache: int) -> tuple[int | None, str]:
    """Return the whole input with its cache reads and writes. A sentence says so if only the counts show that these are
    separate.
    """
    tokens = _possible(reported.input)
    if tokens is None or not cache:
        return tokens, ""
    if reported.cached_inside is False:
        return tokens + cache, ""
    if cache <= tokens:
        return tokens, ""
    said = f"the endpoint reports {cache:,} cached tokens of {tokens:,} input tokens: both are charged"
    return tokens + cache, said


def _add_reasoning(reported: ReportedTokens, reasoning: int) -> tuple[int | None, bool]:
    """Return the whole output with its reasoning, and True if that was added."""
    tokens = _possible(reported.output)
    if tokens is None or not reasoning:
        return tokens, False
    outside = reported.reasoning_inside is False or reasoning > tokens
    return (tokens + reasoning, True) if outside else (tokens, reported.reasoning_inside is True)


def _split_surplus(reported: ReportedTokens, counted: int, reasoning: int) -> tuple[int, int]:
    """Return what the total has beyond input and output: reasoning first where it may lie outside, the rest is
    input.
    """
    more = max(0, _part(reported.total) - counted)
    thought = min(more, reasoning)
    return more - thought, thought


def _up_to_total(reported: ReportedTokens, charged_in: int, charged_out: int, problems: list[str]) -> int:
    """Return the input to charge, where only the total says how much both sides took."""
    if reported.input and reported.output:
        return charged_in
    more = _part(reported.total) - charged_in - charged_out
    if more <= 0:
        return charged_in
    problems.append(f"the endpoint's total is {more:,} tokens above that, which are charged as input tokens")
    return charged_in + more


def _charge_tokens(tokens: int | None, said: int | None, side: str, size: int, worst: int, problems: list[str]) -> int:
    """Return the tokens charged for one side; add a sentence if its reported count, ``said``, is not believed."""
    if not tokens:
        if worst or said:
            words = "no" if not said else f"{said:,}" if abs(said) < 10**18 else "an absurd number of"
            problems.append(f"the endpoint reports {words} {side} tokens: {worst:,} are charged for {size:,} bytes")
        return worst
    if tokens * FAR_OFF * BYTES_PER_TOKEN < size:
        floor = _floor(size)
        problems.append(f"the endpoint reports {tokens:,} {side} tokens for {size:,} bytes: {floor:,} are charged")
        return floor
    return tokens


def _too_many(
    reported: ReportedTokens,
    tokens_in: int,
    tokens_out: int,
    prompt_bytes: int,
    answer_bytes: int,
    max_output_tokens: int,
) -> Iterator[str]:
    """Yield a sentence for each side whose believed count is far above its bytes. Hidden thinking has no bytes, and
    an answer may be as long as the request allows.
    """
    most_in = FAR_OFF * max(prompt_bytes, LEAST_BYTES) // BYTES_PER_TOKEN
    if tokens_in - _part(reported.audio_in) > most_in:
        yield f"the endpoint reports {tokens_in:,} input tokens for {prompt_bytes:,} bytes: all are charged"
    most_out = max(FAR_OFF * answer_bytes // BYTES_PER_TOKEN, max_output_tokens)
    if tokens_out - _part(reported.audio_out) > most_out:
        yield (
            f"the endpoint reports {tokens_out:,} output tokens for {answer_bytes:,} bytes, "
            f"and {max_output_tokens:,} were asked for at most: all are charged"
        )


def _floor(size: int) -> int:
    return -(-size // FLOOR_BYTES)


def _parts(reported: ReportedTokens, tokens_in: int, tokens_out: int, cached: int) -> TokenParts:
    """Return the parts, each only as far as its side has room, dear ones first."""
    written = min(_part(reported.cache_written), tokens_in)
    audio_in = min(_part(reported.audio_in), tokens_in - written)
    audio_out = min(_part(reported.audio_out), tokens_out)
    return TokenParts(
        cached=min(cached, tokens_in - written - audio_in),
        cache_written=written,
        audio_in=audio_in,
        reasoning=min(_part(reported.reasoning), tokens_out - audio_out),
        audio_out=audio_out,
    )
