"""Debate: rounds in which all sides propose at once and are criticised, then a verdict of a judge or a vote of the sides (semantics.md 5).

The plan has a brief for each side, then for each critic, then for the judge, or for each side's vote: so a turn's brief says what it is in the debate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.run import Step
from fabric.core.spec_debate import NEEDED, DebateTopology
from fabric.core.topologies import conversation, slices, supervisor
from fabric.core.topologies.conversation import Turn
from fabric.core.topologies.shape import Concluded
from fabric.core.work import Work

JSON = Any
PROPOSES = "Take your side of the request, as your instructions say: propose an answer and argue for it. Answer what the others and their critics have said."
CRITICISES = "Criticise each proposal of this round: name what is wrong, what is missing and what would change your mind. Propose nothing yourself."
JUDGES = "You have heard the whole debate. Name the side whose proposal is the best answer to the request, and say why."
VOTES = "The debate is over. Vote for the proposal that is the best answer to the request, and say why."


def _of(work: Work) -> DebateTopology:
    topology = work.compiled.spec.topology
    assert isinstance(topology, DebateTopology)
    return topology


def plan(work: Work) -> JSON:
    """A brief for whatever is done in it."""
    topology = _of(work)
    briefs = [_brief(name, f"Proposal of {name}", PROPOSES) for name in topology.workers]
    briefs += [_brief(name, f"Criticism of {name}", CRITICISES) for name in topology.critics]
    if topology.judge is None:
        briefs += [_brief(name, f"Vote of {name}", VOTES) for name in topology.workers]
    else:
        briefs.append(_brief(topology.judge, "Verdict", JUDGES))
    criteria = ["Each side has been heard in each round.", "The winner is named, with the reason."]
    return {"goal": work.compiled.spec.title, "briefs": briefs, "exit_criteria": criteria}


def _brief(agent: str, title: str, instructions: str) -> JSON:
    return {"agent": agent, "title": title, "instructions": instructions}


def begins(work: Work) -> tuple[str, ...]:
    """Nobody at once: the first round is opened as any other."""
    return ()


def concluded(work: Work, steps: list[Step]) -> Concluded | Failure | None:
    """What follows what is over, in its order; after the verdict all that was said. A side that failed is missed where the fan-in policy has no room for its gap."""
    missed = _missed(work, steps)
    if missed:
        supervisor.cancel_rest(work, steps, "the debate cannot go on without whom it lost")
        return conversation.without(missed, len(steps), partial(_why, work))
    return conversation.opened(work, steps, _following)


def _missed(work: Work, steps: list[Step]) -> list[Step]:
    """The turns that failed and that the debate cannot do without: two sides are left at the least, and somebody who decides."""
    failed = [step for step in steps if step.status == "failed"]
    if not failed:
        return []
    topology, policy = _of(work), work.compiled.spec.policy.fan_in
    sides, voting = len(topology.workers), len(topology.workers) + len(topology.critics)
    said = _said(steps)
    left = len(_left(topology, said))
    needed = max(NEEDED, min(policy.k or NEEDED, sides)) if policy.mode == "quorum" else NEEDED
    if left < needed:
        return [step for step in failed if step.brief < sides]
    decides = [step for step in steps if step.brief >= voting]
    over = decides and all(step.status in ("done", "failed") for step in decides)
    if over and not _given(work, said):
        return decides
    return [step for step in failed if not step.partial] if policy.mode == "all" else []


def _why(work: Work, step: Step) -> str:
    """What is wrong with a turn that is missed."""
    if step.status == "failed":
        return step.message
    return f"it is for {work.ctx.output(step.output_ref)['winner']}, whose proposal failed after it"


@value()
class Said:
    """What a turn came to."""

    brief: int
    ref: str
    """Where its output stands; empty: it has none."""
    failed: bool


def _said(steps: list[Step]) -> list[Said]:
    return [Said(one.brief, one.output_ref if one.status == "done" else "", one.status == "failed") for one in steps]


def _passed_on(work: Work) -> list[Said]:
    """The same of a fan-out that is passed, out of its output: a fork has it, and no seats of its turns."""
    named = [(brief["agent"], brief["title"]) for brief in slices.plan(work)["briefs"]]
    parts = work.ctx.output(work.run.stages[Stage.FAN_OUT].output_ref)
    # Before parts of turns said which brief they are, their titles did.
    briefs = (part["brief"] if "brief" in part else named.index((part["agent"], part["title"])) for part in parts)
    return [Said(brief, part["ref"], bool(part["gap"])) for brief, part in zip(briefs, parts, strict=True)]


def _given(work: Work, said: list[Said]) -> list[JSON]:
    """The verdict, or the votes, that came and count: what is for a side whose proposal failed is for nothing that could be passed on."""
    topology = _of(work)
    voting, left = len(topology.workers) + len(topology.critics), _left(topology, said)
    came = (work.ctx.output(one.ref) for one in said if one.brief >= voting and one.ref)
    return [one for one in came if one["winner"] in left]


def _left(topology: DebateTopology, said: list[Said]) -> list[str]:
    """The sides of which no proposal failed, in their order."""
    sides = len(topology.workers)
    lost = {one.brief for one in said if one.failed and one.brief < sides}
    return [name for n, name in enumerate(topology.workers) if n not in lost]


def _following(work: Work, steps: list[Step]) -> Iterable[Turn]:
    topology = _of(work)
    sides, voting = len(topology.workers), len(topology.workers) + len(topology.critics)
    last = steps[-1].brief if steps else voting - 1
    if last >= voting:
        return []
    round_ = Counter(step.brief for step in steps if step.brief < sides).most_common(1)[0][1] if steps else 0
    if steps and last < sides and (critics := _critics(topology, steps)):
        return [Turn(topology.critics[n], sides + n, _proposed(topology, steps, round_)) for n in critics]
    if round_ < topology.rounds:
        return _round(topology, steps, round_ + 1)
    return _verdicts(topology, steps, round_)


def _critics(topology: DebateTopology, steps: list[Step]) -> list[int]:
    """The critics that have not failed, by their place."""
    lost = {step.brief - len(topology.workers) for step in steps if step.status == "failed"}
    return [n for n in range(len(topology.critics)) if n not in lost]


def _nth(steps: list[Step]) -> Iterable[tuple[Step, int]]:
    """Each turn with how often its brief had been done by then: the round that it belongs to."""
    had: Counter[int] = Counter()
    for step in steps:
        had[step.brief] += 1
        yield step, had[step.brief]


def _proposed(topology: DebateTopology, steps: list[Step], round_: int) -> tuple[int, ...]:
    """The proposals of a round."""
    sides = len(topology.workers)
    return tuple(
        step.branch for step, nth in _nth(steps) if nth == round_ and step.brief < sides and step.status == "done"
    )


def _heard(topology: DebateTopology, steps: list[Step], round_: int) -> tuple[int, ...]:
    """The proposals of a round and what was said against them."""
    voting = len(topology.workers) + len(topology.critics)
    return tuple(
        step.branch for step, nth in _nth(steps) if nth == round_ and step.brief < voting and step.status == "done"
    )


def _round(topology: DebateTopology, steps: list[Step], round_: int) -> list[Turn]:
    hears, left = _heard(topology, steps, round_ - 1), set(_left(topology, _said(steps)))
    told = f"Round {round_} of {topology.rounds}."
    return [Turn(name, n, hears, told) for n, name in enumerate(topology.workers) if name in left]


def _verdicts(topology: DebateTopology, steps: list[Step], round_: int) -> list[Turn]:
    voting, left = len(topology.workers) + len(topology.critics), _left(topology, _said(steps))
    if topology.judge is not None:
        hears = tuple(step.branch for step in steps if step.status == "done")
        return [Turn(topology.judge, voting, hears, _choose(left), choices=tuple(left))]
    hears = _heard(topology, steps, round_)
    turns = []
    for n, name in enumerate(topology.workers):
        if name in left:
            choices = tuple(one for one in left if one != name or len(left) == NEEDED)
            turns.append(Turn(name, voting + n, hears, _choose(choices), choices=choices))
    return turns


def _choose(choices: Iterable[str]) -> str:
    return f"The winner is one of: {', '.join(choices)}."


# -- the answer --------------------------------------------------------------------------------------------------------


def joined(work: Work) -> Concluded:
    """The judge's verdict, or the proposal that most votes are for with their count. A tie is for who stands first among the workers, and is told."""
    topology, said = _of(work), _passed_on(work)
    given = _given(work, said)
    votes = Counter(str(one["winner"]) for one in given)
    tied = _tied(topology, votes)
    winner = tied[0]
    won = _last_of(work, said, topology.workers.index(winner))
    if topology.judge is not None:
        verdict = given[0]
        text = f"The verdict is for {winner}.\n\n{verdict['text']}"
        return Concluded({"text": text, "citations": _cited(verdict, won)})
    return Concluded({"text": f"{_counted(votes, winner, tied)}\n\n{won['text']}", "citations": _cited(won)})


def _tied(topology: DebateTopology, votes: Mapping[str, int]) -> list[str]:
    """The sides that have most votes, in their order."""
    most = max(votes.values(), default=0)
    return [name for name in topology.workers if votes.get(name, 0) == most]


def _last_of(work: Work, said: list[Said], side: int) -> JSON:
    """What a side proposed last."""
    return work.ctx.output([one.ref for one in said if one.brief == side and one.ref][-1])


def _counted(votes: Mapping[str, int], winner: str, tied: list[str]) -> str:
    cast = sum(votes.values())
    shown = ", ".join(f"{name} {count}" for name, count in sorted(votes.items(), key=lambda one: (-one[1], one[0])))
    tie = f" It was a tie of {' and '.join(tied)}, which goes to who stands first among the sides." if tied[1:] else ""
    return f"The proposal of {winner} won with {votes[winner]} of {cast} votes ({shown}).{tie}"


def _cited(*said: JSON) -> list[str]:
    return list(dict.fromkeys(name for one in said for name in one["citations"]))
