"""Endpoints that are strict: they refuse what their providers refuse, and want back what their providers want back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simulator.endpoint.answers import Answer, Seals
from simulator.endpoint.misbehaviour import healthy
from simulator.endpoint.quirks.calls import TWO
from simulator.endpoint.quirks.saying import Change, in_calls, own_tools
from simulator.endpoint.rules import anthropic, chat, google, mistral, responses, returns
from simulator.endpoint.rules.names import names
from simulator.endpoint.rules.rule import rule
from simulator.endpoint.scenario import Name, Saying, Scenario
from simulator.endpoint.steps import Step
from simulator.endpoint.turns import Turn, calls


def _two_calls(turn: Turn) -> Step:
    """Two calls at once, then the work: the history that most easily breaks a strict rule."""
    return healthy(turn) if turn.result or not own_tools(turn) else calls(turn, TWO, own_tools(turn)[0])


def _nothing(turn: Turn) -> Step:
    return Step(answer=Answer(""))


def _sealed(seals: Seals) -> Change:
    return lambda answer, turn: replace(answer, reasoning=returns.REASONING, seals=seals)


def _returned(seals: Seals) -> Saying:
    """Three rounds of calls, so that what came in the first has to come back twice."""
    return in_calls(_sealed(seals), rounds=3)


_mistral = (rule(chat=mistral.ids), rule(chat=mistral.order))


def _nine(answer: Answer, turn: Turn) -> Answer:
    """Ids as Mistral gives them."""
    made = [replace(one, id=f"m{turn.number:04d}{at:04d}") for at, one in enumerate(answer.calls)]
    return replace(answer, calls=tuple(made))


TURNS: tuple[Name, ...] = ("chat", "anthropic", "google")
"""Protocols whose histories are messages in turn."""

SCENARIOS: Mapping[str, Scenario] = {
    "strict": Scenario("Makes two calls at once, and refuses each request that its provider refuses.", _two_calls, rules=(rule(chat=chat.openai, responses=responses.responses, anthropic=anthropic.anthropic, google=google.google), names)),
    "strict_answers": Scenario("Makes two calls at once, and refuses a history where a call, or a result, stands alone.", _two_calls, rules=(rule(chat=chat.answered, responses=responses.answered, anthropic=anthropic.answered, google=google.answered),)),
    "strict_ids": Scenario("Refuses a history whose ids of calls its provider does not take: OpenAI 41 characters, Anthropic colons.", _two_calls, rules=(rule(chat=chat.ids, responses=responses.ids, anthropic=anthropic.ids),), protocols=("chat", "responses", "anthropic")),
    "strict_names": Scenario("Refuses names of tools and calls that its provider does not take.", _two_calls, rules=(names,)),
    "strict_turns": Scenario("Refuses a history where users and assistants do not alternate, as vLLM and Bedrock do.", _two_calls, rules=(rule(chat=mistral.turns, anthropic=anthropic.alternating, google=google.alternating),), protocols=TURNS),
    "strict_turns_empty": Scenario("Answers with nothing once, and refuses a history where users and assistants do not alternate.", _nothing, spoken=1, rules=(rule(chat=mistral.turns, anthropic=anthropic.alternating, google=google.alternating),), protocols=TURNS),
    "strict_turns_llama": Scenario("Refuses with 500 a history where users and assistants do not alternate, as llama.cpp does.", _nothing, spoken=1, rules=(rule(chat=mistral.turns_of_llama),), protocols=("chat",)),
    "strict_content": Scenario("Answers with nothing once, and refuses a history with an empty message.", _nothing, spoken=1, rules=(rule(chat=mistral.content, anthropic=anthropic.content, google=google.content),), protocols=TURNS),
    "strict_last": Scenario("Answers with nothing once, and refuses a history that ends with the assistant.", _nothing, spoken=1, rules=(rule(chat=mistral.last, anthropic=anthropic.last, google=google.last),), protocols=TURNS),
    "strict_fields": Scenario("Gives reasoning with a call, and refuses fields of a message that OpenAI does not know, as Groq does.", _returned("reasoning"), rules=(rule(chat=mistral.extras),), protocols=("chat",)),
    "strict_mistral": Scenario("Gives ids of nine letters and digits, and refuses what Mistral refuses: other ids, other orders.", in_calls(_nine, words=TWO), rules=_mistral, protocols=("chat",)),
    "strict_mistral_ids": Scenario("Gives long ids, and refuses all but ids of nine letters and digits, as a proxy before Mistral does.", _two_calls, rules=_mistral, protocols=("chat",)),
    "strict_gemma": Scenario("Refuses a message of the system, and turns that do not alternate, as Gemma's template does.", _two_calls, rules=(rule(chat=mistral.no_system), rule(chat=mistral.turns)), protocols=("chat",)),
    "no_tools": Scenario("Refuses tools, as Ollama does for models without them.", _two_calls, rules=(rule(chat=mistral.no_tools),), protocols=("chat",)),
    "max_tokens": Scenario("Refuses max_tokens: it wants max_completion_tokens.", healthy, rules=(rule(chat=chat.max_tokens),), protocols=("chat",)),
    "temperature": Scenario("Refuses a temperature, as reasoning models do.", healthy, rules=(rule(chat=chat.temperature, responses=responses.temperature, anthropic=anthropic.temperature),), protocols=("chat", "responses", "anthropic")),
    # Parts that must come back.
    "return_reasoning": Scenario("Gives reasoning_content with each call, and refuses a history without it, as DeepSeek does.", _returned("reasoning"), rules=(rule(chat=returns.deepseek),), protocols=("chat",)),
    "return_signature": Scenario("Gives a thought signature with its calls, and refuses a history without it, as Gemini 3 does.", _returned("call"), rules=(rule(chat=returns.gemini_compatible, google=returns.gemini),), protocols=("chat", "google")),
    "return_details": Scenario("Gives reasoning_details with each call, and refuses a history without them, as OpenRouter does.", _returned("details"), rules=(rule(chat=returns.openrouter),), protocols=("chat",)),
    "return_thinking": Scenario("Gives signed thinking with each call, and refuses a history without it, as Anthropic does.", _returned("thinking"), rules=(rule(anthropic=returns.anthropic),), protocols=("anthropic",)),
    "return_redacted": Scenario("Gives redacted thinking with each call, and refuses a history without it, as Anthropic does.", _returned("redacted"), rules=(rule(anthropic=returns.anthropic),), protocols=("anthropic",)),
    "return_sealed": Scenario("Gives reasoning items with each call, and refuses a history without them, as OpenAI does.", _returned("encrypted"), rules=(rule(responses=responses.sealed),), protocols=("responses",)),
    "forgotten_response": Scenario("Keeps no response, and refuses each previous_response_id.", _two_calls, rules=(rule(responses=responses.forgotten),), protocols=("responses",)),
}  # fmt: skip
"""By what ``--scenario`` takes."""
