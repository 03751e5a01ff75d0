"""Endpoints that are strict: they refuse what their providers refuse, and want back what their providers want back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simulator.endpoint.behaviour.definition import Behaviour, Name, Saying
from simulator.endpoint.behaviour.misbehaviour import healthy
from simulator.endpoint.behaviour.turns import Turn, calls
from simulator.endpoint.quirks.calls import TWO
from simulator.endpoint.quirks.wording import Change, change_calls, own_tools
from simulator.endpoint.validation import anthropic, chat, google, mistral, responses, returns
from simulator.endpoint.validation.names import names, rule
from simulator.endpoint.wire.steps import Seals, SimulatedAnswer, Step


def _two_calls(turn: Turn) -> Step:
    """Make two calls at once, then do the work: that history breaks a strict rule most easily."""
    return healthy(turn) if turn.result or not own_tools(turn) else calls(turn, TWO, own_tools(turn)[0])


def _nothing(turn: Turn) -> Step:
    return Step(answer=SimulatedAnswer(""))


def _seal_reasoning(seals: Seals) -> Change:
    return lambda answer, turn: replace(answer, reasoning=returns.REASONING, seals=seals)


def _require_returns(seals: Seals) -> Saying:
    """Return a behaviour with three rounds of calls: parts of the first round have to come back twice."""
    return change_calls(_seal_reasoning(seals), rounds=3)


_mistral = (rule(chat=mistral.ids), rule(chat=mistral.order))


def _nine(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    """Ids as Mistral gives them."""
    made = [replace(one, id=f"m{turn.number:04d}{at:04d}") for at, one in enumerate(answer.calls)]
    return replace(answer, calls=tuple(made))


TURNS: tuple[Name, ...] = ("chat", "anthropic", "google")
"""Protocols whose histories are messages in turn."""

BEHAVIOURS: Mapping[str, Behaviour] = {
    "strict": Behaviour(_two_calls, rules=(rule(chat=chat.openai, responses=responses.responses, anthropic=anthropic.anthropic, google=google.google), names)),
    "strict_answers": Behaviour(_two_calls, rules=(rule(chat=chat.check_answers, responses=responses.check_answers, anthropic=anthropic.check_answers, google=google.check_answers),)),
    "strict_ids": Behaviour(_two_calls, rules=(rule(chat=chat.ids, responses=responses.ids, anthropic=anthropic.ids),), protocols=("chat", "responses", "anthropic")),
    "strict_names": Behaviour(_two_calls, rules=(names,)),
    "strict_turns": Behaviour(_two_calls, rules=(rule(chat=mistral.turns, anthropic=anthropic.check_alternation, google=google.check_alternation),), protocols=TURNS),
    "strict_turns_empty": Behaviour(_nothing, spoken=1, rules=(rule(chat=mistral.turns, anthropic=anthropic.check_alternation, google=google.check_alternation),), protocols=TURNS),
    "strict_turns_llama": Behaviour(_nothing, spoken=1, rules=(rule(chat=mistral.turns_of_llama),), protocols=("chat",)),
    "strict_content": Behaviour(_nothing, spoken=1, rules=(rule(chat=mistral.content, anthropic=anthropic.content, google=google.content),), protocols=TURNS),
    "strict_last": Behaviour(_nothing, spoken=1, rules=(rule(chat=mistral.last, anthropic=anthropic.last, google=google.last),), protocols=TURNS),
    "strict_fields": Behaviour(_require_returns("reasoning"), rules=(rule(chat=mistral.extras),), protocols=("chat",)),
    "strict_mistral": Behaviour(change_calls(_nine, words=TWO), rules=_mistral, protocols=("chat",)),
    "strict_mistral_ids": Behaviour(_two_calls, rules=_mistral, protocols=("chat",)),
    "strict_gemma": Behaviour(_two_calls, rules=(rule(chat=mistral.no_system), rule(chat=mistral.turns)), protocols=("chat",)),
    "no_tools": Behaviour(_two_calls, rules=(rule(chat=mistral.no_tools),), protocols=("chat",)),
    "max_tokens": Behaviour(healthy, rules=(rule(chat=chat.max_tokens),), protocols=("chat",)),
    "temperature": Behaviour(healthy, rules=(rule(chat=chat.temperature, responses=responses.temperature, anthropic=anthropic.temperature),), protocols=("chat", "responses", "anthropic")),
    # Parts that must come back.
    "return_reasoning": Behaviour(_require_returns("reasoning"), rules=(rule(chat=returns.deepseek),), protocols=("chat",)),
    "return_signature": Behaviour(_require_returns("call"), rules=(rule(chat=returns.gemini_compatible, google=returns.gemini),), protocols=("chat", "google")),
    "return_details": Behaviour(_require_returns("details"), rules=(rule(chat=returns.openrouter),), protocols=("chat",)),
    "return_thinking": Behaviour(_require_returns("thinking"), rules=(rule(anthropic=returns.anthropic),), protocols=("anthropic",)),
    "return_redacted": Behaviour(_require_returns("redacted"), rules=(rule(anthropic=returns.anthropic),), protocols=("anthropic",)),
    "return_sealed": Behaviour(_require_returns("encrypted"), rules=(rule(responses=responses.check_seals),), protocols=("responses",)),
    "forgotten_response": Behaviour(_two_calls, rules=(rule(responses=responses.check_forgetting),), protocols=("responses",)),
}  # fmt: skip
"""The behaviour of each fault whose ``play`` is this module."""
