"""Lists all faults in one table, for the swarm, the scenarios and the scripted endpoint.

The swarm draws a fault that has a ``top``. A scenario names one that has a ``strike``. The endpoint serves one that has
a ``play``; some faults it plays alone: odd forms, refusals and strict rules of the providers' protocols. CONTRIBUTING
says how to add one.

Each seed of the swarm draws some faults, and gives each a rate. A fault that no seed meets proves nothing. So the world
counts each strike under the fault's name (``World.sometimes``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from random import Random

from pydantic import ValidationError

from fabric.core.values.units import JSON
from simulator.faults import fault as given
from simulator.faults.fault import NOT_LIVE, Fault
from simulator.texts.problems import Path, Problem, list_problems, nearest

ODD_ANSWERS = (
    # Ways of the endpoint that belong to no family.
    Fault("flaky", "model", "One request in three fails (429, 503 or a dropped connection), as the seed draws it", play="misbehaviour"),
    Fault("unknown_model", "model", "The endpoint answers 404: it does not know the model", play="refusals"),
    Fault("not_found", "model", "The endpoint answers 404, as a wrong base URL does", play="refusals"),
    Fault("no_schema", "model", "The endpoint answers 400: it does not know response_format", play="refusals"),
    Fault("context_length", "model", "The endpoint answers 400: the conversation is too long", play="refusals"),
    Fault("stall", "model", "The endpoint sends half of the answer and goes silent, and the connection stays open", play="connections"),
    Fault("cut_stream", "model", "The endpoint ends a stream in the middle as if it were over, without [DONE]; an answer that is not streamed breaks off", play="connections"),
    Fault("doubled_chunk", "model", "The endpoint sends one chunk of a stream twice", play="connections"),
    Fault("nothing", "model", "The endpoint sends 200 and an empty body", play="form"),
    Fault("cut_json", "model", "The endpoint sends JSON that stops in the middle, as if it were whole", play="form"),
    Fault("error_body", "model", "The endpoint sends 200 with an error where the answer should be", play="form"),
    Fault("credential", "answer", "The model answers with a text that looks like an access key (it is none)", play="misbehaviour"),
    Fault("spender", "answer", "An agent makes seven calls, each billed for 20,000 tokens in and 4,000 out, then does its work", play="misbehaviour"),
    Fault("spender_slow", "answer", "An agent makes nine calls, each billed for 5,000 tokens in and 1,000 out, then does its work", play="misbehaviour"),
    # Refusals: statuses, limits and quotas in the forms of each provider, and waits that no client can read.
    Fault("status_400", "model", "The endpoint answers 400 and an error body", play="refusals"),
    Fault("status_401", "model", "The endpoint answers 401 and an error body", play="refusals"),
    Fault("status_402", "model", "The endpoint answers 402 and an error body", play="refusals"),
    Fault("status_403", "model", "The endpoint answers 403 and an error body", play="refusals"),
    Fault("status_404", "model", "The endpoint answers 404 and an error body", play="refusals"),
    Fault("status_408", "model", "The endpoint answers 408 and an error body", play="refusals"),
    Fault("status_409", "model", "The endpoint answers 409 and an error body", play="refusals"),
    Fault("status_413", "model", "The endpoint answers 413 and an error body", play="refusals"),
    Fault("status_422", "model", "The endpoint answers 422 and an error body", play="refusals"),
    Fault("status_499", "model", "The endpoint answers 499 and an error body", play="refusals"),
    Fault("status_500", "model", "The endpoint answers 500 and an error body", play="refusals"),
    Fault("status_503", "model", "The endpoint answers 503 and an error body", play="refusals"),
    Fault("status_504", "model", "The endpoint answers 504 and an error body", play="refusals"),
    Fault("status_520", "model", "The endpoint answers 520 and an error body", play="refusals"),
    Fault("status_529", "model", "The endpoint answers 529 and an error body", play="refusals"),
    Fault("status_502", "model", "The endpoint answers 502 and a web page", play="refusals"),
    Fault("status_503_page", "model", "The endpoint answers 503 and a web page", play="refusals"),
    Fault("status_500_empty", "model", "The endpoint answers 500 and an empty body", play="refusals"),
    Fault("status_429_page", "model", "The endpoint answers 429 and a web page", play="refusals"),
    Fault("limit_as_server_error", "model", "The endpoint answers 429, and says in the body that it is a server_error", play="refusals"),
    Fault("limit_as_400", "model", "The endpoint answers 400 where it means a limit of requests", play="refusals"),
    Fault("limit_openai", "model", "The endpoint answers 429 in the form of OpenAI", play="refusals"),
    Fault("limit_azure", "model", "The endpoint answers 429 in the form of Azure", play="refusals"),
    Fault("limit_anthropic", "model", "The endpoint answers 429 in the form of Anthropic", play="refusals"),
    Fault("limit_google", "model", "The endpoint answers 429 in the form of Google", play="refusals"),
    Fault("limit_google_list", "model", "The endpoint answers 429 in the form of Google's compatible endpoint", play="refusals"),
    Fault("limit_mistral", "model", "The endpoint answers 429 in the form of Mistral", play="refusals"),
    Fault("limit_openrouter", "model", "The endpoint answers 429 in the form of OpenRouter", play="refusals"),
    Fault("limit_bedrock", "model", "The endpoint answers 429 in the form of Bedrock", play="refusals"),
    Fault("limit_fastapi", "model", "The endpoint answers 429 in the form of FastAPI", play="refusals"),
    Fault("limit_text", "model", "The endpoint answers 429 with a bare text, as a gateway does", play="refusals"),
    Fault("retry_after_far", "model", "The endpoint answers 429 with this for a wait: a date in the year 99999999999999", play="refusals"),
    Fault("retry_after_digits", "model", "The endpoint answers 429 with this for a wait: a number of 4,000 digits", play="refusals"),
    Fault("retry_after_negative", "model", "The endpoint answers 429 with this for a wait: a negative number", play="refusals"),
    Fault("retry_after_zero", "model", "The endpoint answers 429 with this for a wait: 0", play="refusals"),
    Fault("retry_after_fraction", "model", "The endpoint answers 429 with this for a wait: a fraction", play="refusals"),
    Fault("retry_after_words", "model", "The endpoint answers 429 with words for a Retry-After", play="refusals"),
    Fault("retry_after_past", "model", "The endpoint answers 429 with this for a wait: a date that is past", play="refusals"),
    Fault("retry_after_date", "model", "The endpoint answers 429 with this for a wait: a date that lies far ahead", play="refusals"),
    Fault("retry_after_infinite", "model", "The endpoint answers 429 with this for a wait: inf", play="refusals"),
    Fault("retry_after_nan", "model", "The endpoint answers 429 with this for a wait: nan", play="refusals"),
    Fault("retry_after_ms", "model", "The endpoint answers 429 with this for a wait: milliseconds in retry-after-ms", play="refusals"),
    Fault("retry_after_unit", "model", "The endpoint answers 429 with this for a wait: a number with a unit", play="refusals"),
    Fault("quota_reset", "model", "The endpoint answers 429 because a quota is used up, and says in the message when it is back", play="refusals"),
    Fault("quota_balance", "model", "The endpoint answers 429 because the account has no balance left", play="refusals"),
    Fault("quota_day", "model", "The endpoint answers 429 because the quota of the day is used up, as Google does", play="refusals"),
    Fault("error_string", "model", "The endpoint answers 400 and an error that is a bare text", play="refusals"),
    Fault("error_empty_object", "model", "The endpoint answers 400 and an empty object", play="refusals"),
    Fault("error_in_200", "model", "The endpoint sends 200 with an error that is a bare text", play="refusals"),
    Fault("error_429_in_200", "model", "The endpoint sends 200 with an error whose code is 429", play="refusals"),
    # Answers whose form is odd: fields, types, bytes around the JSON, codings.
    Fault("missing_id", "model", "The endpoint leaves out the id of an answer", play="form"),
    Fault("missing_object", "model", "The endpoint leaves out the kind of an answer", play="form"),
    Fault("missing_model", "model", "The endpoint leaves out the model of an answer", play="form"),
    Fault("missing_index", "model", "The endpoint leaves out the index of an answer", play="form"),
    Fault("missing_role", "model", "The endpoint leaves out the role of an answer", play="form"),
    Fault("missing_created", "model", "The endpoint leaves out the time of an answer", play="form"),
    Fault("missing_usage", "model", "The endpoint leaves out the usage of an answer", play="form"),
    Fault("missing_finish", "model", "The endpoint leaves out the finish reason of an answer", play="form"),
    Fault("wrong_types", "model", "The endpoint gives fields that carry nothing values of other types than the protocol says", play="form"),
    Fault("unknown_fields", "model", "The endpoint adds fields that no protocol knows", play="form"),
    Fault("no_choices", "model", "The endpoint answers with an empty list where the answer should be", play="form"),
    Fault("bom", "model", "The endpoint begins the body with a byte order mark", play="form"),
    Fault("blank_lines", "model", "The endpoint begins the body with blank lines, as a gateway does that waits", play="form"),
    Fault("two_documents", "model", "The endpoint sends the same document twice in one body", play="form"),
    Fault("trailing_text", "model", "The endpoint sends a line of a log behind the body", play="form"),
    Fault("deep_json", "model", "The endpoint adds a field that is nested 50 levels deep", play="form"),
    Fault("deep_json_10000", "model", "The endpoint adds a field that is nested 10,000 levels deep", play="form"),
    Fault("number_of_400_digits", "model", "The endpoint adds a field that holds a number of 400 digits", play="form"),
    Fault("number_nan", "model", "The endpoint adds a field that holds NaN", play="form"),
    Fault("number_infinity", "model", "The endpoint adds a field that holds Infinity", play="form"),
    Fault("number_huge_exponent", "model", "The endpoint adds a field that holds 1e400", play="form"),
    Fault("bare_text", "model", "The endpoint answers with a text in JSON, and nothing around it", play="form"),
    Fault("other_form", "model", "The endpoint answers in the form of another protocol", play="form"),
    Fault("changing_form", "model", "The endpoint changes its form from request to request: its protocol's, a bare text, Anthropic's", play="form"),
    Fault("login_page", "model", "The endpoint sends a login page with 200", play="form"),
    Fault("packed_gzip", "model", "The endpoint packs each body with gzip, whether it may or not", play="form"),
    Fault("packed_deflate", "model", "The endpoint packs each body with deflate, whether it may or not", play="form"),
    Fault("packed_br", "model", "The endpoint packs each body with br, whether it may or not", play="form"),
    # Tool calls in an odd form: ids, arguments, names, and calls that come as text.
    Fault("parallel_calls", "answer", "The model makes two calls in one answer, then does its work", play="calls"),
    Fault("empty_arguments", "answer", "The model calls a tool with an empty text for arguments, where a tool takes none", play="calls"),
    Fault("arguments_turned", "answer", "The model gives arguments in the other form: an object where text is due, text where an object is", play="calls"),
    Fault("empty_id", "answer", "The model makes calls whose id is an empty text", play="calls"),
    Fault("null_id", "answer", "The model makes calls whose id is null", play="calls"),
    Fault("number_id", "answer", "The model makes calls whose id is a number", play="calls"),
    Fault("long_id", "answer", "The model makes calls whose id has 500 characters", play="calls"),
    Fault("odd_id", "answer", "The model makes calls whose id has colons, dots and blanks, as Kimi's do", play="calls"),
    Fault("cut_call", "answer", "The model cuts its first answer by length within a call whose arguments are JSON by luck", play="calls"),
    Fault("cut_call_broken", "answer", "The model cuts its first answer by length within a call whose arguments are no JSON", play="calls"),
    Fault("cut_arguments", "answer", "The model breaks off the arguments of its first call, and says that the call is whole", play="calls"),
    Fault("special_name", "answer", "The model leaves special tokens in the name of its first call, and refuses a history with such a name", play="calls"),
    Fault("function_call", "answer", "The model makes its call in the old field function_call", play="calls"),
    Fault("null_optional", "answer", "The model fills each optional argument with null", play="calls"),
    Fault("big_integers", "answer", "The model gives whole numbers beyond 2^53, and in its second turn beyond 2^63", play="calls"),
    Fault("text_call", "answer", "The model writes its first call as text, in <tool_call> tags, as Qwen and Hermes do", play="calls"),
    Fault("text_call_open", "answer", "The model writes its first call as text, in a <tool_call> tag that is never closed", play="calls"),
    Fault("text_call_xml", "answer", "The model writes its first call as text, in <function=...> and <parameter=...> tags, as Qwen Coder does", play="calls"),
    Fault("text_call_llama", "answer", "The model writes its first call as text, in a <function=...> tag, as Llama does", play="calls"),
    Fault("text_call_python", "answer", "The model writes its first call as text, behind <|python_tag|>, as Llama does", play="calls"),
    Fault("text_call_mistral", "answer", "The model writes its first call as text, behind [TOOL_CALLS], as Mistral does", play="calls"),
    Fault("text_call_mistral_args", "answer", "The model writes its first call as text, behind [TOOL_CALLS] with [ARGS], as newer Mistrals do", play="calls"),
    Fault("text_call_deepseek", "answer", "The model writes its first call as text, between DeepSeek's tokens", play="calls"),
    Fault("text_call_bare", "answer", "The model writes its first call as text, as a bare JSON object", play="calls"),
    Fault("text_call_fence", "answer", "The model writes its first call as text, in a ```json fence", play="calls"),
    # Content in an odd form: thinking, finish reasons, counts of tokens.
    Fault("think", "answer", "The model puts what it thinks into the text, between <think> and </think>", play="content"),
    Fault("think_closing", "answer", "The model puts what it thinks into the text, with the closing </think> alone", play="content"),
    Fault("think_open", "answer", "The model puts what it thinks into the text, and never closes <think>", play="content"),
    Fault("think_draft", "answer", "The model drafts a wrong answer in the form of the answer, then closes </think> and gives the right one", play="content"),
    Fault("think_parts", "answer", "The model gives content in parts, thinking first, as Mistral does", play="content"),
    Fault("reasoning", "answer", "The model gives its reasoning beside the answer, where the protocol has its place", play="content"),
    Fault("reasoning_details", "answer", "The model gives its reasoning in reasoning_details, as OpenRouter does", play="content"),
    Fault("reasoning_only", "answer", "The model gives its reasoning, and no text at all", play="content"),
    Fault("finish_tool_use", "answer", "The model ends each answer with tool_use for a reason", play="content"),
    Fault("finish_eos", "answer", "The model ends each answer with eos for a reason", play="content"),
    Fault("finish_end_turn", "answer", "The model ends each answer with end_turn for a reason", play="content"),
    Fault("finish_stop_sequence", "answer", "The model ends each answer with stop_sequence for a reason", play="content"),
    Fault("finish_pause_turn", "answer", "The model ends each answer with pause_turn for a reason", play="content"),
    Fault("finish_totally_new", "answer", "The model ends each answer with totally_new for a reason", play="content"),
    Fault("finish_length", "answer", "The model ends each answer with length for a reason", play="content"),
    Fault("finish_content_filter", "answer", "The model ends each answer with content_filter for a reason", play="content"),
    Fault("usage_negative", "answer", "The endpoint says that each answer took negative counts of tokens", play="content"),
    Fault("usage_absurd", "answer", "The endpoint says that each answer took 10^15 tokens", play="content"),
    Fault("usage_one", "answer", "The endpoint says that each answer took one token in and one out, however long the prompt is", play="content"),
    Fault("usage_zero", "answer", "The endpoint says that each answer took no tokens at all", play="content"),
    Fault("usage_float", "answer", "The endpoint says that each answer took counts of tokens with a fraction", play="content"),
    Fault("usage_text", "answer", "The endpoint says that each answer took counts of tokens as text", play="content"),
    Fault("usage_null", "answer", "The endpoint says that each answer took null for each count of tokens", play="content"),
    Fault("usage_cached", "answer", "The endpoint says that each answer took cached tokens inside the tokens of the prompt", play="content"),
    Fault("usage_cached_apart", "answer", "The endpoint says that each answer took cached tokens apart from the tokens of the prompt", play="content"),
    Fault("usage_cached_too_many", "answer", "The endpoint says that each answer took more cached tokens than the prompt has", play="content"),
    Fault("usage_reasoning", "answer", "The endpoint says that each answer took reasoning tokens inside the tokens of the answer", play="content"),
    Fault("usage_reasoning_too_many", "answer", "The endpoint says that each answer took more reasoning tokens than the answer has", play="content"),
    Fault("usage_audio", "answer", "The endpoint says that each answer took audio tokens in the prompt", play="content"),
    # Answers that one protocol alone has.
    Fault("response_failed", "answer", "The endpoint gives a response whose status is failed", play="dialects"),
    Fault("refused_answer", "answer", "The endpoint gives a refusal where the text should be", play="dialects"),
    Fault("blocked_prompt", "answer", "The endpoint blocks the prompt: it gives no candidates, and the reason", play="dialects"),
    Fault("malformed_call", "answer", "The endpoint says once that the model's call is malformed, and gives no content", play="dialects"),
    Fault("no_parts", "answer", "The endpoint gives content without parts", play="dialects"),
    # Streams that are odd: events, bytes, order, end.
    Fault("cut_after", "model", "The endpoint ends a stream after 3 events as if it were over; cut_after=N sets the number", play="streams"),
    Fault("drop_after", "model", "The endpoint breaks the connection of a stream after 3 events; drop_after=N sets the number", play="streams"),
    Fault("error_midway", "model", "The endpoint sends half of a stream and then an error", play="streams"),
    Fault("many_chunks", "model", "The endpoint sends a text of 30,000 characters in 10,000 events, where words are wanted", play="streams"),
    Fault("no_done", "model", "The endpoint ends a stream without the event that says that it is over", play="streams"),
    Fault("empty_usage_chunk", "model", "The endpoint sends usage in chunks without choices, asked for or not", play="streams"),
    Fault("keep_alive", "model", "The endpoint sends a comment before each event", play="streams"),
    Fault("pings", "model", "The endpoint sends an event of the name ping before each event", play="streams"),
    Fault("crlf", "model", "The endpoint ends the lines of a stream with CR and LF", play="streams"),
    Fault("no_space", "model", "The endpoint writes no blank behind data: in a stream", play="streams"),
    Fault("odd_pieces", "model", "The endpoint sends a stream in pieces of seven bytes", play="streams"),
    Fault("one_piece", "model", "The endpoint sends a stream in one piece", play="streams"),
    Fault("no_last_blank", "model", "The endpoint leaves out the blank line behind the last event of a stream", play="streams"),
    Fault("broken_event", "model", "The endpoint sends an event in the middle of a stream that is no JSON", play="streams"),
    Fault("index_zero", "model", "The endpoint streams two calls that both stand at index 0", play="streams"),
    Fault("no_index", "model", "The endpoint streams two calls without an index", play="streams"),
    Fault("interleaved", "model", "The endpoint streams the bits of two calls in turn", play="streams"),
    Fault("repeated_ids", "model", "The endpoint streams calls with their id and name in each bit", play="streams"),
    # Endpoints that refuse what their providers refuse.
    Fault("strict", "model", "The endpoint makes two calls at once, and refuses each request that its provider refuses", play="strictness"),
    Fault("strict_answers", "model", "The endpoint makes two calls at once, and refuses a history where a call, or a result, stands alone", play="strictness"),
    Fault("strict_ids", "model", "The endpoint refuses a history whose ids of calls its provider does not take: OpenAI 41 characters, Anthropic colons", play="strictness"),
    Fault("strict_names", "model", "The endpoint refuses names of tools and calls that its provider does not take", play="strictness"),
    Fault("strict_turns", "model", "The endpoint refuses a history where users and assistants do not alternate, as vLLM and Bedrock do", play="strictness"),
    Fault("strict_turns_empty", "model", "The endpoint answers with nothing once, and refuses a history where users and assistants do not alternate", play="strictness"),
    Fault("strict_turns_llama", "model", "The endpoint refuses with 500 a history where users and assistants do not alternate, as llama.cpp does", play="strictness"),
    Fault("strict_content", "model", "The endpoint answers with nothing once, and refuses a history with an empty message", play="strictness"),
    Fault("strict_last", "model", "The endpoint answers with nothing once, and refuses a history that ends with the assistant", play="strictness"),
    Fault("strict_fields", "model", "The endpoint gives reasoning with a call, and refuses fields of a message that OpenAI does not know, as Groq does", play="strictness"),
    Fault("strict_mistral", "model", "The endpoint gives ids of nine letters and digits, and refuses what Mistral refuses: other ids, other orders", play="strictness"),
    Fault("strict_mistral_ids", "model", "The endpoint gives long ids, and refuses all but ids of nine letters and digits, as a proxy before Mistral does", play="strictness"),
    Fault("strict_gemma", "model", "The endpoint refuses a message of the system, and turns that do not alternate, as Gemma's template does", play="strictness"),
    Fault("no_tools", "model", "The endpoint refuses tools, as Ollama does for models without them", play="strictness"),
    Fault("max_tokens", "model", "The endpoint refuses max_tokens: it wants max_completion_tokens", play="strictness"),
    Fault("temperature", "model", "The endpoint refuses a temperature, as reasoning models do", play="strictness"),
    Fault("return_reasoning", "model", "The endpoint gives reasoning_content with each call, and refuses a history without it, as DeepSeek does", play="strictness"),
    Fault("return_signature", "model", "The endpoint gives a thought signature with its calls, and refuses a history without it, as Gemini 3 does", play="strictness"),
    Fault("return_details", "model", "The endpoint gives reasoning_details with each call, and refuses a history without them, as OpenRouter does", play="strictness"),
    Fault("return_thinking", "model", "The endpoint gives signed thinking with each call, and refuses a history without it, as Anthropic does", play="strictness"),
    Fault("return_redacted", "model", "The endpoint gives redacted thinking with each call, and refuses a history without it, as Anthropic does", play="strictness"),
    Fault("return_sealed", "model", "The endpoint gives reasoning items with each call, and refuses a history without them, as OpenAI does", play="strictness"),
    Fault("forgotten_response", "model", "The endpoint keeps no response, and refuses each previous_response_id", play="strictness"),
)  # fmt: skip
"""Rows of the one catalogue (``catalogue.py``)."""

# Columns: name, port, sentence, highest rate in the swarm, parameters, strike of scenarios, play of the endpoint.
_ROWS = (
    # A model call that brings no answer, or brings it late.
    Fault("rate_limit", "model", "The endpoint answers 429 without a Retry-After", 0.5, given.Calls, "model", "refusals"),
    Fault("retry_after", "model", "The endpoint answers 429 with a Retry-After", 0.5, given.RetryAfter, "model", "refusals"),
    Fault("retry_after_hour", "model", "The endpoint answers 429 with a Retry-After of 3600 seconds", 0.1, play="refusals"),
    Fault("unavailable", "model", "The endpoint answers 503, or another error of its own", 0.6, given.Status, "model", "refusals"),
    Fault("hang", "model", "The endpoint does not answer before the call's deadline, and bills nothing", 0.3, given.Calls, "model", "connections"),
    Fault("hang_billed", "model", "The endpoint does not answer before the call's deadline, and bills the call", 0.3, given.Calls, "model"),
    Fault("hang_up", "model", "The endpoint closes the connection without an answer", 0.4, play="connections"),
    Fault("bad_key", "model", "The endpoint answers 401: it does not know the key", 0.05, play="refusals"),
    Fault("quota", "model", "The endpoint answers 429: the account's quota is spent, and waiting does not help", 0.05, play="refusals"),
    Fault("filtered", "model", "The endpoint's content filter refuses the request", 0.05, given.Calls, "model"),
    Fault("slow", "model", "The endpoint answers well, much later than it should", 0.4, given.Delayed, "model", "connections"),
    Fault("outage", "model", "A provider answers no call for a while, and then is back", None, given.Outage, "model", "refusals"),
    Fault("trickle", "model", "The answer comes byte by byte, and is not whole by the call's deadline", None, given.Trickling, "model", "connections"),
    Fault("html", "model", "The endpoint sends a web page where an answer is due", None, given.Calls, "model", "form"),
    # An answer that is not what was asked for.
    Fault("malformed", "answer", "The model answers with JSON that is cut off", 0.4, given.Calls, "model", "misbehaviour"),
    Fault("off_schema", "answer", "The model answers with JSON of another shape", 0.4, given.Calls, "model", "misbehaviour"),
    Fault("empty", "answer", "The model answers with nothing", 0.3, given.Calls, "model", "misbehaviour"),
    Fault("bad_plan", "answer", "The planner gives a plan that cannot be carried out", 0.4, given.BadPlan, "model", "misbehaviour"),
    Fault("spawning", "answer", "The planner starts more agents than are allowed", 0.3, given.Briefs, "model", "misbehaviour"),
    Fault("ungrounded", "answer", "The answer cites a document that is not attached", 0.3, given.Citation, "model", "misbehaviour"),
    Fault("unsure", "answer", "The critic gives a score below the one that is wanted", 0.7, given.Score, "model", "misbehaviour", drawn="often"),
    Fault("filtered_answer", "answer", "The endpoint's content filter cuts the answer", 0.05, given.Calls, "model"),
    Fault("tool_loop", "answer", "An agent makes the same tool call for ever", 0.3, given.Calls, "model", "misbehaviour", drawn="often"),
    Fault("tool_loop_of_2", "answer", "An agent makes two tool calls in turn for ever", 0.3, given.Calls, "model", "misbehaviour", drawn="often"),
    Fault("tool_loop_of_3", "answer", "An agent makes three tool calls in turn for ever", None, given.Calls, "model", "misbehaviour"),
    Fault("tool_loop_changing", "answer", "An agent makes the same tool call for ever, and its result changes each time", 0.3, play="misbehaviour"),
    Fault("tool_loop_paraphrased", "answer", "An agent asks a tool the same question in other words for ever", None, given.Calls, "model", "misbehaviour"),
    Fault("chatter", "answer", "An agent calls tools for ever, each time with other arguments", 0.2),
    Fault("same_id", "answer", "An agent's calls have the same id in turn after turn, as llama.cpp gives them", 0.2, play="calls"),
    Fault("unknown_tool", "answer", "An agent calls a tool that was not offered", 0.3, given.Calls, "model", "misbehaviour"),
    Fault("bad_arguments", "answer", "An agent calls a tool with arguments that are cut off, or do not fit", 0.3, given.Calls, "model", "misbehaviour"),
    Fault("flood", "answer", "An agent makes far more tool calls in one answer than are executed", 0.2, given.Flood, "model", "misbehaviour"),
    Fault("same_id_at_once", "answer", "Two calls of one answer have the same id", 0.3, play="calls"),
    Fault("no_id", "answer", "An agent makes calls without an id", 0.2, play="calls"),
    Fault("eager_output", "answer", "An agent gives its output together with tool calls", 0.4),
    Fault("cost_spike_price", "answer", "An answer is billed at far more than was reserved", 0.1, given.Price, "model"),
    Fault("cost_spike_tokens", "answer", "An answer has far more tokens than were asked for", None, given.Tokens, "model", "misbehaviour"),
    Fault("unfit_text", "answer", "The answer has a NUL and half of a surrogate pair in it", None, given.Calls, "model", "misbehaviour"),
    Fault("handoff_cycle", "answer", "Two agents hand the same request to each other, A to B to A", None, given.Handing, "model", "misbehaviour"),
    Fault("handoff_cycle_of_3", "answer", "Three agents hand the same request round, A to B to C to A", None, given.HandingOf3, "model", "misbehaviour"),
    Fault("supervisor_stuck", "answer", "An agent says that it needs more information, however often it is asked again", None, given.Times, "model", "misbehaviour"),
    Fault("partial_fan_in", "answer", "The first branches of a fan-out bring no result", None, given.Branches, "model"),
    # Tools.
    Fault("tool_error", "tool", "The tool answers with an error", 0.3, given.ToolCalls, "tool"),
    Fault("tool_hang", "tool", "The tool does not return before the call's deadline", 0.2, given.ToolCalls, "tool"),
    Fault("tool_failed", "tool", "The tool's adapter fails", 0.2, given.ToolCalls, "tool"),
    Fault("tool_slow", "tool", "The tool's result takes longer than it should", None, given.SlowTool, "tool"),
    Fault("tool_instructs", "tool", "The tool's result tells its agent what to do", None, given.ToolCalls, "tool"),
    # Workers.
    Fault("crash", "worker", "A worker dies as it carries something out", 0.04, given.Crash, "chance"),
    Fault("sudden_death", "worker", "A worker dies at some instant", 0.6, given.At, "moment"),
    Fault("zombie", "worker", "A worker stands still for longer than its lease, and then goes on", 0.03, given.Zombie, "moment"),
    Fault("deaf", "worker", "A worker's heartbeats are lost while it works on", 0.3),
    Fault("retired", "worker", "The store retires a worker that still lives", 0.5),
    Fault("soft_stop", "worker", "A worker is asked to stop: it lets calls finish for a while, and gives back the rest", 0.3),
    Fault("late_result", "worker", "The result of a call that was given up still comes", 1.0, drawn="often"),
    Fault("twin_result", "worker", "A result is delivered twice", 0.3),
    Fault("slow_result", "worker", "Other results overtake a result", 0.3),
    # The database.
    Fault("commit_lost", "store", "The answer to a commit is lost, and so is the commit", 0.1, given.Once, "chance"),
    Fault("commit_landed", "store", "The answer to a commit is lost, and the commit lands", 0.1, given.Once, "chance"),
    Fault("busy", "store", "The database is busy", 0.1),
    Fault("store_away", "store", "The database is away when something is written", 0.1, given.Once, "chance"),
    Fault("slow_commit", "store", "A commit takes seconds", 0.1),
    Fault("commit_late", "store", "The answer to a commit is lost, and the commit lands after its fate was asked for", 0.1),
    Fault("claim_landed", "store", "The answer to a claim is lost, and the claim lands", 0.1),
    Fault("claim_away", "store", "The database is away when runs are claimed", 0.1),
    Fault("damage", "store", "A claim reads a journal or a snapshot that differs from the one that was written", 0.2),
    # Messages to workers, and inputs of runs.
    Fault("nudge_lost", "broker", "A nudge to a worker is lost", 0.8, given.Occurrences, "chance"),
    Fault("nudge_doubled", "broker", "A nudge to a worker comes twice", None, given.Occurrences, "chance"),
    Fault("input_doubled", "broker", "An input is inserted twice under one id", 0.6, given.Occurrences, "chance"),
    Fault("input_doubled_late", "broker", "An input is inserted again much later", 0.5),
    # People.
    Fault("cancel", "person", "A person cancels the run at some instant", 0.5),
    Fault("cancel_at_end", "person", "A person cancels the run as it ends", 0.4),
    Fault("terminate", "person", "A person terminates the run at some instant", 0.3),
    Fault("paused", "person", "A person pauses the run at some instant, and resumes it later", 0.8),
    Fault("paused_for_long", "person", "A person resumes a paused run only after all else has come to rest", 0.3),
    Fault("fork", "person", "A person forks an ended run from one of its events", 0.3),
    Fault("person_double_click", "person", "A reviewer sends an answer twice, each under its own id", 1.0, given.Clicks, "review", drawn="often"),
    Fault("two_reviewers", "person", "Two reviewers decide, and differ", 0.8, drawn="often"),
    Fault("stale_digest", "person", "A reviewer decides about something else than the review asks", 0.4),
    Fault("person_late", "person", "A reviewer answers after the review has expired", 0.5, given.Late, "review"),
    Fault("wrong_verb", "person", "A reviewer takes a decision that is not possible here", 0.2),
    Fault("decision_undone", "person", "A reviewer takes a decision back at the last moment", 0.8),
    Fault("person_silent", "person", "No reviewer answers", 0.3, given.Asked, "review"),
    Fault("last_minute", "person", "A reviewer decides so late that the review is due while the decision can be undone", 0.3),
    Fault("person_edits", "person", "A reviewer changes what is asked about before it is done", None, given.Answered, "review"),
    Fault("person_rejects", "person", "A reviewer says no", None, given.Answered, "review"),
    # Services outside, which tools change.
    Fault("effect_lost_answer", "service", "The service does what is asked, and its answer is lost", 0.4, given.Once, "tool", drawn="often"),
    Fault("effect_not_done", "service", "The service does nothing and says nothing", 0.3, drawn="often"),
    Fault("effect_refused", "service", "The service refuses", 0.3, given.Once, "tool", drawn="often"),
    Fault("effect_never_sent", "service", "The request never reaches the service, and that is known", 0.3, drawn="often"),
    Fault("compensation_fails", "service", "The service cannot undo the change now", 0.6, given.Once, "tool", drawn="often"),
    Fault("compensation_stuck", "service", "The service cannot undo the change for as long as things go wrong", 0.3, drawn="often"),
    Fault("reconcile_fails", "service", "The service does not say what it has done", 0.5, drawn="often"),
    # Clocks.
    Fault("clock_skew", "clock", "A worker's clock lies off the database's", None, given.Skew, "moment"),
    # Faults that a seed draws behind all others. A new fault of the swarm goes to the end.
    Fault("twin_briefs", "answer", "The planner gives one worker the same brief twice", 0.4, given.Calls, "model", drawn="later"),
    Fault("fruitless_search", "answer", "An agent asks a tool something else each time, and finds nothing", 0.4, given.Calls, "model", drawn="later"),
    Fault("judge_objects", "answer", "A judge, or the oracle of a gate, says no", 0.5, drawn="later"),
    Fault("self_approval", "person", "The person who started the run answers its review", 0.3, drawn="later"),
    Fault("role_lost", "person", "A reviewer loses their roles before the run takes the answer", 0.4, drawn="later"),
    Fault("untyped", "answer", "The answer's data does not fit the schema of the agent's author", 0.5, drawn="later"),
    Fault("vote_for_unknown", "answer", "A verdict, or a vote, names a side that does not exist", 0.5, drawn="later"),
    Fault("dropped_stream", "model", "The connection breaks inside the answer", 0.4, given.Dropped, "model", "connections", drawn="later"),
    Fault("dear_answer", "answer", "An answer costs far more than was reserved, and its cap has room for it", 0.3, drawn="seldom"),
    Fault("unusable_answer", "model", "The endpoint sends an answer that cannot be used, and its bill is known", 0.3, drawn="seldom"),
    Fault("server_asks", "tool", "The tool's server asks a person in the middle of the call", 0.3, drawn="seldom"),
    Fault("own_parts", "answer", "The answer has parts and counts of tokens that only its provider has", 0.3, drawn="seldom"),
)  # fmt: skip

FAULTS: Mapping[str, Fault] = {one.name: one for one in (*_ROWS, *ODD_ANSWERS)}
"""Every fault, by name. The swarm draws in this order."""
DRAWN: Mapping[str, Fault] = {name: one for name, one in FAULTS.items() if one.top is not None}
"""The faults of the swarm."""
STRUCK: Mapping[str, Fault] = {name: one for name, one in FAULTS.items() if one.strike is not None}
"""The faults of scenarios."""
PLAYED: Mapping[str, Fault] = {name: one for name, one in FAULTS.items() if one.play is not None}
"""The faults of the scripted endpoint."""


class FaultRefused(ValueError):
    """A scenario cannot have this fault as it is written. ``problems`` has the reasons, each with its path."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, problems)))


def fault_named(name: str, at: Path = (), *, live: bool = False) -> Fault:
    """Return the fault that a scenario names.

    Raises FaultRefused for a name that no fault of scenarios has. With ``live``, also for a fault that cannot strike
    the model of real workers.
    """
    fault = STRUCK.get(name)
    if fault is None:
        wrong = f"no scenario plays the fault {name!r}" if name in FAULTS else f"there is no fault {name!r}"
        raise FaultRefused([Problem((*at, "fault"), f"{wrong}; {nearest(name, STRUCK)}")])
    if live and not fault.live:
        raise FaultRefused([Problem((*at, "fault"), f"{name} cannot be injected live: {NOT_LIVE[fault.port]}")])
    return fault


_ANY_FAULT = Fault("", "model", "", parameters=given.Calls)


def find_near_fault(name: str) -> Fault:
    """Return the fault of scenarios with the nearest name; without one, a fault with the parameters that most have."""
    close = get_close_matches(name, STRUCK, n=1, cutoff=0.6)
    return STRUCK[close[0]] if close else _ANY_FAULT


def build_parameters(fault: Fault, values: Mapping[str, JSON], at: Path = ()) -> given.Parameters:
    """Return the typed parameters of a fault of scenarios.

    Raises FaultRefused with a problem for each value that is unknown, missing, of another type or out of range.
    """
    assert fault.parameters is not None
    try:
        return fault.parameters.model_validate(dict(values))
    except ValidationError as error:
        raise FaultRefused(list_problems(error, fault.parameters, at)) from None


DENSITIES = (0.0, 0.1, 0.25, 0.5)
"""The share of the faults that a seed has. Runs where few things go wrong matter as much as runs where many do."""
SCALES = (0.1, 0.3, 1.0)
"""The share of its highest rate that a fault has in a seed."""
OFTEN = 0.35
"""The share of seeds that have a fault which matters only together with others."""
LATER = 0.25
"""The share of seeds that have a fault which is drawn by itself."""
SELDOM = 0.06
"""The share of seeds that have a fault of few seeds."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The rate of each fault in one seed. A fault without a rate never strikes. KeyError for one that is not drawn."""

    rates: Mapping[str, float]

    def __post_init__(self) -> None:
        for name in self.rates:
            DRAWN[name]

    def __getitem__(self, name: str) -> float:
        return self.rates.get(name, 0.0)


NONE = Rates({})
"""No faults: the liveness phase."""


def draw(rng: Random) -> Rates:
    """Return rates of a random subset of the faults that are drawn first, or often."""
    density, scale = rng.choice(DENSITIES), rng.choice(SCALES)
    often = OFTEN if density else 0.0
    found = {}
    for name, fault in DRAWN.items():
        if fault.drawn in ("first", "often") and fault.top is not None:
            frequent = fault.drawn == "often"
            if rng.random() < (max(density, often) if frequent else density):
                found[name] = fault.top * (1.0 if frequent else scale)
    return Rates(found)


def add_later(rates: Rates, rng: Random) -> Rates:
    """Return the rates with those of the faults that are drawn behind, where any other fault strikes too."""
    if not rates.rates:
        return rates
    found = dict(rates.rates)
    for drawn, share in (("later", LATER), ("seldom", SELDOM)):
        for name, fault in DRAWN.items():
            if fault.drawn == drawn and fault.top is not None and rng.random() < share:
                found[name] = fault.top
    return Rates(found)
