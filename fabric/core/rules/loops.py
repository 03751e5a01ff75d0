"""Rules of the loop detectors, as pure functions over the calls of one agent step. The mechanism applies them before
each call, ``evaluate_detectors`` to recorded traces.

One implementation, so that measured and enforced rules are one (S0 "Loop Detector", S1 "Tool call loop detection";
docs/specification/protections.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, islice
from typing import TypeVar

from fabric.core.rules.near_identical import Likeness, Words, near_identical
from fabric.core.spec.policies.loop_limits import LoopDetector
from fabric.core.values.frozen import value

T = TypeVar("T")
Call = tuple[str, str]
"""Tool and fingerprint of its arguments; equal for equal calls."""
PERIODS = (2, 3)
FABRO_PERIODS = (1, 2, 3)
FABRO_STEERING = (
    "WARNING: Loop detected. You appear to be repeating the same tool calls. "
    "Please try a different approach or ask for clarification."
)
"""S1's steering message, word for word."""
STILL_FAILS = "This call was not executed: everything failed of late. Use what you have, or say what is missing."
ANSWER_CHARS_MIN = 40
"""Fewest characters of an answer that counts. Shorter ones ("ok", "approve", nothing) repeat naturally.
docs/specification/protections.md has this limit for briefs too.
"""
SAID_SIMILARITY = 0.7
"""I: least Jaccard index of two announcements that count as one."""
SAYS_THE_SAME = "This call was not executed. You have said the same before your calls again and again, and nothing came of them. Use what you have, or do something else."


@value()
class SeenCall:
    """One executed call."""

    tool: str
    args_hash: str
    turn: int
    call_id: str
    masked: str = ""
    """Fingerprint of the masked result; "" while there is none."""
    failed: bool = False
    """True if the tool returned an error."""
    args_ref: str = ""
    """Reference of its arguments; "" if they are unknown."""

    @property
    def call(self) -> Call:
        """Return the identity of the call."""
        return (self.tool, self.args_hash)


@value()
class ProposedCall:
    """A call that is about to be executed, and the calls before it."""

    call: Call
    turn: int
    wave: tuple[Call, ...]
    """All calls of its turn, this one included."""
    calls: tuple[SeenCall, ...]
    """Executed calls of the step, oldest first."""
    like: Callable[[SeenCall], bool]
    """Returns True if an executed call of this tool is near-identical. Called only if the answer matters, since it
    may read arguments.
    """
    warned: bool = False
    """True if a call of this step was blocked before."""
    polls: Callable[[SeenCall], bool] = lambda seen: False
    """Returns True for an executed call that is a poll, which is repeated on purpose."""
    shown: Callable[[], str] | None = None
    """Returns the call with its arguments, shortened; None: unknown. Called only for a sentence, since it reads
    arguments.
    """
    said: Callable[[], Sequence[tuple[str, Words]]] = lambda: ()
    """Returns the agent's texts before its calls, oldest first, each with an id. The last one is for this call. The id
    is that of the last call before the text; "" for none. Texts under 40 characters are left out.
    """
    likeness: Callable[[Sequence[SeenCall]], Likeness] = lambda seen: Likeness.ALIKE
    """Says how alike executed calls ask, with the proposed one behind them."""

    @property
    def display_name(self) -> str:
        """The call as a sentence names it."""
        return self.shown() if self.shown else self.call[0]


@value()
class LoopFinding:
    """A loop, with the facts for its trip."""

    detector: str
    limit: int
    observed: int
    window: str
    what: str
    """The agent's deed, as the end of a sentence. The agent is its subject."""
    cycle: tuple[str, ...]
    advice: str = ""
    """Message to the model in place of the usual one; "": the usual one."""


Rule = Callable[[LoopDetector, ProposedCall], LoopFinding | None]
ONE_CALL = frozenset({"identical_calls", "same_call_in_a_row", "flow", "ag2"})
"""Detectors that find one call repeated with equal arguments. It may be a poll."""


def judge(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """Return the first loop that the active detectors find, in their order. Repeated calls come before cycles and
    paraphrases, short windows before long ones.
    """
    in_force = (config.preset,) if config.preset else config.detectors
    for name, rule in RULES.items():
        if name in in_force and (found := rule(config, asked)) is not None:
            return found
    return None


def repeated_answer(config: LoopDetector, answers: Sequence[str]) -> LoopFinding | None:
    """E: the last answer was given as often as the threshold says. ``answers``: fingerprints of the masked answers
    without calls that one agent gave to one brief, since the last review's answer; "" for one of fewer than 40
    characters.
    """
    if config.preset or "same_answer" not in config.detectors or not answers or not answers[-1]:
        return None
    observed = sum(answer == answers[-1] for answer in answers)
    if observed < config.answer_threshold:
        return None
    return LoopFinding(
        "same_answer",
        config.answer_threshold,
        observed,
        "step",
        f"gave the same answer {observed} times (limit {config.answer_threshold})",
        (),
    )


# -- A, D: the same call -----------------------------------------------------------------------------------------------


def _identical(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    recent = [seen for seen in _window(config, asked) if seen.call == asked.call]
    observed = len(recent) + 1
    if observed < config.identical_threshold or not _equal([seen.masked for seen in recent]):
        return None
    what = f"{_times(config, asked.display_name, observed)}, and each result was the same {_limit(config.identical_threshold)}"
    return LoopFinding(
        "identical_calls",
        config.identical_threshold,
        observed,
        f"{config.identical_window} calls",
        what,
        (asked.call[0],),
    )


def _flow(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """S0's literal rule: as A, with results ignored."""
    observed = 1 + sum(seen.call == asked.call for seen in _window(config, asked))
    if observed < config.identical_threshold:
        return None
    what = f"{_times(config, asked.display_name, observed)} {_limit(config.identical_threshold)}"
    return LoopFinding(
        "flow", config.identical_threshold, observed, f"{config.identical_window} calls", what, (asked.call[0],)
    )


def _consecutive(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    return _in_a_row("same_call_in_a_row", config.consecutive_threshold, asked)


def _ag2(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """Find three equal calls in a row, once: a step that was warned is skipped."""
    return None if asked.warned else _in_a_row("ag2", config.ag2_threshold, asked)


def _in_a_row(name: str, threshold: int, asked: ProposedCall) -> LoopFinding | None:
    streak = 1
    for seen in reversed(asked.calls):
        if seen.call != asked.call:
            break
        streak += 1
    if streak < threshold:
        return None
    what = f"asked for {asked.display_name} {streak} times in a row {_limit(threshold)}"
    return LoopFinding(name, threshold, streak, "in a row", what, (asked.call[0],))


def _window(config: LoopDetector, asked: ProposedCall) -> tuple[SeenCall, ...]:
    """Return the executed calls that share a window with the proposed one."""
    return asked.calls[-(config.identical_window - 1) :] if config.identical_window > 1 else ()


# -- C: paraphrases ----------------------------------------------------------------------------------------------------


def _similar(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """Near-identical calls of one masked result: A's window and threshold, with words instead of hashes."""
    tool = asked.call[0]
    by_result: dict[str, list[SeenCall]] = {}
    for seen in _window(config, asked):
        if seen.tool == tool and seen.masked:
            by_result.setdefault(seen.masked, []).append(seen)
    needed = config.identical_threshold - 1
    for recorded in by_result.values():
        if len(recorded) < needed:
            continue
        alike = sum(seen.call == asked.call or asked.like(seen) for seen in recorded)
        if alike >= needed:
            said, limit = f"calls like {asked.display_name}", config.identical_threshold
            what = f"{_times(config, said, alike + 1)}, and each result was the same {_limit(limit)}"
            return LoopFinding(
                "near_identical_calls", limit, alike + 1, f"{config.identical_window} calls", what, (tool,)
            )
    return None


# -- F, G: long loops --------------------------------------------------------------------------------------------------


def _nothing_new(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """F: each of the last calls was made before in the long window, with an equal result. The proposed one counts; the
    order is a cycle of any length, or none.
    """
    tail = config.stale_threshold - 1
    window = asked.calls[max(0, len(asked.calls) - config.long_window + 1) :]
    before, last = window[:-tail], window[-tail:]
    if not before or asked.call not in [(seen.tool, seen.args_hash) for seen in window]:
        return None
    calls = {seen.call for seen in before}
    known = {(seen.call, seen.masked) for seen in before}
    for seen in last:
        made = (seen.call, seen.masked) in known if seen.masked else seen.call in calls
        if not made or asked.polls(seen):
            return None
    cycle = (*(seen.tool for seen in last), asked.call[0])
    limit = config.stale_threshold
    what = f"asked for {limit} calls in a row that had been made before, the last one {asked.display_name}, and got no new result {_limit(limit)}"
    return LoopFinding("nothing_new_in_a_row", limit, limit, "in a row", what, cycle)


def _long(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """G: rule C over a longer window, for loops with other calls in between that brought nothing new. The call's
    result was equal each time.
    """
    tool, needed = asked.call[0], config.long_threshold - 1
    first = max(0, len(asked.calls) - config.long_window + 1)
    came_to = Counter([seen.masked for seen in asked.calls[first:] if seen.tool == tool and seen.masked])
    if max(came_to.values(), default=0) < needed:
        return None
    known: set[str] = set()
    for n, seen in enumerate(asked.calls):
        if (seen.masked and seen.masked not in known) or asked.polls(seen):
            first = max(first, n)
            known.add(seen.masked)
    recent = [seen for seen in reversed(asked.calls[first:]) if seen.tool == tool and seen.masked]
    alike = [seen for seen in recent if seen.call == asked.call or asked.like(seen)][:needed]
    if len(alike) < needed or not _equal([seen.masked for seen in alike]):
        return None
    times, window = config.long_threshold, f"{config.long_window} calls"
    what = f"asked {times} times within {window} for calls like {asked.display_name}, and learnt nothing new in between {_limit(times)}"
    return LoopFinding("near_identical_calls_in_the_long_run", times, times, window, what, (tool,))


def _find_failing_turns(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """H: the last turns had nothing but failures, whatever the calls and messages. A success in between, such as an
    edit before a test, is a way out.
    """
    turns: dict[int, str] = {}
    for seen in reversed(asked.calls):
        if seen.turn == asked.turn:
            continue
        if not seen.failed:
            return None
        turns.setdefault(seen.turn, seen.tool)
        if len(turns) >= config.failing_threshold:
            cycle = tuple(reversed(turns.values()))
            what = f"got nothing but errors in {len(turns)} turns in a row {_limit(config.failing_threshold)}"
            return LoopFinding(
                "nothing_but_errors", config.failing_threshold, len(turns), "in a row", what, cycle, STILL_FAILS
            )
    return None


def _says_the_same(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """I: the agent announces nearly equal text again and again. Since then all calls failed, or had like arguments and
    equal results.
    """
    needed = config.said_threshold - 1
    turns = islice(groupby(asked.calls, lambda seen: seen.turn), needed)
    if not asked.calls or len(list(turns)) < needed:
        return None
    said = asked.said()[-config.said_window :]
    if not said:
        return None
    alike = [after for after, words in said[:-1] if near_identical(words, said[-1][1], SAID_SIMILARITY)]
    if len(alike) < needed:
        return None
    first = next((n + 1 for n, seen in enumerate(asked.calls) if seen.call_id == alike[-needed]), 0)
    since = [seen for seen in asked.calls[first:] if seen.turn != asked.turn]
    if not since or any(asked.polls(seen) for seen in since):
        return None
    came_to: dict[int, set[tuple[str, str]]] = {}
    for seen in since:
        if not seen.failed:
            came_to.setdefault(seen.turn, set()).add((seen.tool, seen.masked))
    if len({frozenset(results) for results in came_to.values()}) > 1:
        return None
    if came_to and asked.likeness([seen for seen in since if not seen.failed]) is not Likeness.ALIKE:
        return None
    observed, limit = len(alike) + 1, config.said_threshold
    window = f"{config.said_window} turns"
    what = f"said the same before its calls {observed} times within {window}, and the calls failed or came to the same {_limit(limit)}"
    return LoopFinding(
        "same_words_before_calls", limit, observed, window, what, tuple(seen.tool for seen in since), SAYS_THE_SAME
    )


# -- B and S1's rule: cycles of turns ----------------------------------------------------------------------------------

Turn = tuple[tuple[Call, ...], tuple[str, ...]]
"""Calls of one turn, and their masked results."""


def _periodic(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    turns = _turns(asked, config.period_window)
    for period in PERIODS:
        needed = period * config.period_repeats
        if len(turns) < needed:
            continue
        groups = _groups(turns, period, config.period_repeats)
        first = [calls for calls, _ in groups[0]]
        if len(set(first)) < 2:
            continue
        same_calls = all([calls for calls, _ in group] == first for group in groups)
        if same_calls and all(_same_results([group[n][1] for group in groups]) for n in range(period)):
            cycle = tuple(tool for calls in first for tool, _ in calls)
            what = f"went round {' -> '.join(cycle)} {config.period_repeats} times, and the results were the same {_limit(config.period_repeats)}"
            return LoopFinding(
                "repeated_cycle",
                config.period_repeats,
                config.period_repeats,
                f"{config.period_window} turns",
                what,
                cycle,
            )
    return None


def _fabro(config: LoopDetector, asked: ProposedCall) -> LoopFinding | None:
    """S1 to the letter: the window is full, and its groups of one, two or three turns are equal. Results do
    not count.
    """
    size = config.period_window
    turns = [calls for calls, _ in _turns(asked, size)]
    if len(turns) < size:
        return None
    for period in FABRO_PERIODS:
        repeats = size // period
        groups = _groups(turns, period, repeats)
        if repeats > 1 and all(group == groups[0] for group in groups):
            cycle = tuple(tool for calls in groups[0] for tool, _ in calls)
            what = f"went round {' -> '.join(cycle)} in all of its last {size} turns"
            return LoopFinding("fabro", repeats, repeats, f"{size} turns", what, cycle, FABRO_STEERING)
    return None


def _groups(turns: list[T], period: int, repeats: int) -> list[list[T]]:
    """Return the last ``repeats`` groups, the proposed turn in the last one."""
    tail = turns[-period * repeats :]
    return [tail[n : n + period] for n in range(0, period * repeats, period)]


def _turns(asked: ProposedCall, size: int) -> list[Turn]:
    """Return the last ``size`` turns, oldest first: executed ones and the proposed one, which has no results. No
    more of the window is read than that.
    """
    turns: list[Turn] = [(asked.wave, ("",) * len(asked.wave))]
    current: list[SeenCall] = []
    for seen in reversed(asked.calls):
        if current and seen.turn != current[0].turn:
            turns.append(_turn(current))
            current = []
            if len(turns) >= size:
                break
        if seen.turn != asked.turn:
            current.append(seen)
    if current:
        turns.append(_turn(current))
    return turns[:size][::-1]


def _turn(calls: list[SeenCall]) -> Turn:
    """Return a turn from calls in the order newest first."""
    ordered = calls[::-1]
    return tuple([(seen.tool, seen.args_hash) for seen in ordered]), tuple([seen.masked for seen in ordered])


def _same_results(results: list[tuple[str, ...]]) -> bool:
    return all(_equal(column) for column in zip(*results, strict=False))


def _equal(results: Sequence[str]) -> bool:
    return len({result for result in results if result}) <= 1


def _times(config: LoopDetector, said: str, observed: int) -> str:
    return f"asked for {said} {observed} times within {config.identical_window} calls"


def _limit(limit: int) -> str:
    return f"(limit {limit})"


def nth(n: int) -> str:
    """Return an ordinal in words."""
    return {1: "first", 2: "second", 3: "third"}.get(n, f"{n}th")


RULES: Mapping[str, Rule] = {
    "identical_calls": _identical,
    "same_call_in_a_row": _consecutive,
    "repeated_cycle": _periodic,
    "near_identical_calls": _similar,
    "nothing_new_in_a_row": _nothing_new,
    "near_identical_calls_in_the_long_run": _long,
    "nothing_but_errors": _find_failing_turns,
    "same_words_before_calls": _says_the_same,
    "flow": _flow,
    "fabro": _fabro,
    "ag2": _ag2,
}
"""Rules by detector and preset, in the order of their application. E judges answers, not calls. Total by test."""
