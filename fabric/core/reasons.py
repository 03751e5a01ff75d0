"""Advice for each cause, and the patterns that no reason may hold. ``docs/reasons.md`` is made from these tables."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fabric.core.taxonomy import Cause

WHAT_TO_DO: Mapping[Cause, str] = {
    Cause.RATE_LIMIT: "Wait until the endpoint takes requests again, send fewer at once, or name a fallback model.",
    Cause.SERVER_ERROR: "Look whether the endpoint is up, or name a fallback model.",
    Cause.TIMEOUT: "Find out why the endpoint or tool is slow, or give its calls more time (deadlines, timeout_s).",
    Cause.NETWORK: "Look whether the endpoint can be reached from the worker's machine.",
    Cause.DROPPED_STREAM: "Find out why the connection breaks, or switch streaming off for this model.",
    Cause.RETRY_ASKED: "Find out why the tool asks to be called again, or give the step more retries.",
    Cause.MALFORMED_ANSWER: "Look at the address of the endpoint: it often ends in /v1. A proxy may answer in its place.",
    Cause.AUTH: "Look at the key: the endpoint refuses it.",
    Cause.BAD_REQUEST: "Look at the model's options: the endpoint refuses the request.",
    Cause.BAD_CONFIGURATION: "Correct the fabric or the installation where the sentence says.",
    Cause.UNKNOWN_MODEL: "Look at the model's name: the endpoint does not know it.",
    Cause.SCHEMA_INVALID: "Look at the output that was refused, and at the schema that it has to fit.",
    Cause.TOOL_CONSTRAINT: "Look at what the tool refuses, and say it in the agent's instructions.",
    Cause.UNKNOWN: "Look at the run's events: nobody knows this failure.",
    Cause.CORRECTIONS_SPENT: "Look at the agent's last answers, and make its instructions or its schema simpler.",
    Cause.INVARIANT: "Look at the check that said no, and at the output that it judged.",
    Cause.GROUNDING: "Look at the citations: the sources do not say what the answer says.",
    Cause.PARTIAL_FAN_IN: "Look at the agents that brought no result, or let the fan-in accept fewer.",
    Cause.CONTEXT_LENGTH: "Give the agent less to read, or a model with a larger context.",
    Cause.TOKEN_LIMIT: "Give the model a larger max_output_tokens, or ask for a shorter answer.",
    Cause.QUOTA: "Raise the account's quota, or wait until it begins anew.",
    Cause.BUDGET_GATE: "Raise the cap that the sentence names, or use a cheaper model.",
    Cause.KEY_CAP: "Wait for the next day or month, use a model with another key, or have an owner raise the key's cap.",
    Cause.COST_VELOCITY: "Look what is being bought so fast. Raise the cap, or configure the rate that is normal.",
    Cause.PRICE_MISSING: "Give the model a price in the fabric.",
    Cause.RUN_DEADLINE: "Give the runs of this tier more time (deadlines), or less to do.",
    Cause.STAGE_DEADLINE: "Give the stage more time (deadlines), or less to do.",
    Cause.DEADLINE_NEAR: "Give the stage more time (deadlines), or the call less.",
    Cause.TURN_LIMIT: "Find out why the agent needs so many turns, or raise limits.turns.",
    Cause.HOP_LIMIT: "Find out why the agents hand over so often, or raise limits.hops.",
    Cause.RECURSION_LIMIT: "Make the teams less deep, or raise limits.recursion.",
    Cause.VISIT_LIMIT: "Find out why the run goes round, or raise the limit of visits.",
    Cause.SUB_AGENT_CAP: "Let the planner hand out fewer briefs, or raise limits.sub_agents_alive or sub_agents_spawned.",
    Cause.EVENT_CAP: "Find out why the run writes so many events, or raise limits.run_events.",
    Cause.PAYLOAD_CAP: "Give the run less to keep, or raise limits.run_payload_bytes.",
    Cause.PENDING_CAP: "Let fewer calls be out at once, or raise limits.pending_calls.",
    Cause.LOOP_DETECTED: "Find out why the call's result does not help the agent. A tool that is asked again on purpose is declared with polling: true.",
    Cause.STALLED: "Look at what was awaited: it neither answers nor fails.",
    Cause.NO_PROGRESS: "Find out why the results do not help the agent, and say in its instructions when to stop.",
    Cause.BRIEF_REPEATED: "Find out why the same work is given out again, and say in the instructions what to do instead.",
    Cause.SUPERVISOR_STUCK: "Find out why the worker's message does not help the supervisor, and name an agent that takes over.",
    Cause.HANDOFF_CYCLE: "Say in the instructions who finishes the work, or name an agent that takes over.",
    Cause.RETRY_BUDGET_EMPTY: "Find out why so many calls fail: the retries that the fabric allows are used up.",
    Cause.QUEUE_FULL: "Wait until runs have ended, or start more workers.",
    Cause.PLAN_GATE: "Look at the plan that was refused, and make the planner's instructions clearer.",
    Cause.POLICY_DENIED: "Look at the rule that said no. It is meant to, or it is to be changed.",
    Cause.WORKSPACE_POLICY: "Take out of the fabric what the workspace's policy refuses, or have an owner change the policy.",
    Cause.PERSONA_VIOLATION: "Give the agent the capability that the tool takes, or take the tool away from it.",
    Cause.INJECTED_INSTRUCTION: "Look at the result that the sentence names: it tells the agent what to do. Nothing was changed after it.",
    Cause.CONTENT_FILTER: "Look at the request: the provider's filter withheld the answer.",
    Cause.DUPLICATE_CALL: "Nothing: the agent reads why, and asks again.",
    Cause.DEPENDENCY_FAILED: "Look at the call that this one needed.",
    Cause.WRITE_CONFLICT: "Let one call write at a time, or say which write stands (conflicts).",
    Cause.OUTCOME_UNKNOWN: "Look in the other system whether the call was executed, and answer the question.",
    Cause.REPEATED_FAILURE: "Mend the failure that the sentence names: it does not go away by itself.",
    Cause.RESTART_BLOCKED: "Mend the failure that the sentence names: the graph does not begin anew after it.",
    Cause.GOAL_UNMET: "Find out why the goal's agent brought no result.",
    Cause.BELOW_TAU: "Read the output and decide about it.",
    Cause.USER_CANCEL: "Nothing: somebody cancelled it.",
}
"""Advice about what to do now, by cause; total by test."""

NO_SENTENCES: Mapping[str, re.Pattern[str]] = {
    "the letter of a detector": re.compile(r"\bdetector [A-I]\b"),
    "the name of a mechanism in front": re.compile(
        r"^(loop detector|deadlock monitor|no progress|stalled|goal gate|post-gate|pre-gate)\b"
    ),
    "a count of one": re.compile(r"\b1 of 1\b"),
    "money of nothing": re.compile(r"\$0\.0+\b(?!\d)"),
    "a limit that is passed": re.compile(r"would pass the (limit|cap)"),
    "a word of the engine alone": re.compile(r"\b(rung|ladder|parked|inject into)\b"),
    "a token for a sentence": re.compile(r"^[a-z]+(_[a-z]+)+$"),
    "an end before its cause": re.compile(r"^child run \S+ ended as"),
}
"""Patterns that no reason may hold, by the fault of each."""


def why_no_sentence(reason: str) -> str:
    """Returns what makes a reason hard to understand; empty: nothing does."""
    return next((why for why, pattern in NO_SENTENCES.items() if pattern.search(reason)), "")
