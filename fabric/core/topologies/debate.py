"""Runs a debate: rounds of proposals and criticism, then a judge's verdict or the sides' vote
(docs/specification/topologies.md).

The plan has a brief for each side, then for each critic, then for the judge, or for each side's vote. So the number
of a turn's brief is its role in the debate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from fabric.core.decision import slices
from fabric.core.decision.work import Work
from fabric.core.spec.topologies.debate import NEEDED, DebateTopology
from fabric.core.state.failure import Failure
from fabric.core.state.run import Step
from fabric.core.topologies import conversation, supervisor
from fabric.core.topologies.conversation import NextTurn
from fabric.core.topologies.shape import StageOutput
from fabric.core.values.branches import LOST
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON

PROPOSES = "Take your side of the request, as your instructions say: propose an answer and argue for it. Answer what the others and their critics have said."
CRITICISES = "Criticise each proposal of this round: name what is wrong, what is missing and what would change your mind. Propose nothing yourself."
JUDGES = "You have heard the whole debate. Name the side whose proposal is the best answer to the request, and say why."
VOTES = "The debate is over. Vote for the proposal that is the best answer to the request, and say why."


def _topology(work: Work) -> DebateTopology:
    topology = work.compiled_fabric.spec.topology
    assert isinstance(topology, DebateTopology)
    return topology


def plan(work: Work) -> JSON:
    """Return the plan: one brief for each proposal, criticism and vote or verdict."""
    topology = _topology(work)
    briefs = [_brief(name, f"Proposal of {name}", PROPOSES) for name in topology.workers]
    briefs += [_brief(name, f"Criticism of {name}", CRITICISES) for name in topology.critics]
    if topology.judge is None:
        briefs += [_brief(name, f"Vote of {name}", VOTES) for name in topology.workers]
    else:
        briefs.append(_brief(topology.judge, "Verdict", JUDGES))
    criteria = ["Each side has been heard in each round.", "The winner is named, with the reason."]
    return {"goal": work.compiled_fabric.spec.title, "briefs": briefs, "exit_criteria": criteria}


def _brief(agent: str, title: str, instructions: str) -> JSON:
    return {"agent": agent, "title": title, "instructions": instructions}


def begins(work: Work) -> tuple[str, ...]:
    """Return no agents: the first round is opened like any other."""
    return ()


def conclude_fan_out(work: Work, steps: list[Step]) -> StageOutput | Failure | None:
    """Open the next turns in order; after the verdict, conclude with all outputs. Fails if a side failed and the
    fan-in policy accepts no gap.
    """
    missed = _missed_turns(work, steps)
    if missed:
        supervisor.cancel_rest(work, steps, LOST)
        return conversation.failure_without(missed, len(steps), partial(_turn_problem, work))
    return conversation.open_turns(work, steps, _list_next_turns)


def _missed_turns(work: Work, steps: list[Step]) -> list[Step]:
    """Return the failed turns without which the debate cannot go on. It needs two sides at least, and a judge or
    votes.
    """
    failed = [step for step in steps if step.status == "failed"]
    if not failed:
        return []
    topology, policy = _topology(work), work.compiled_fabric.spec.policy.fan_in
    sides, voting = len(topology.workers), len(topology.workers) + len(topology.critics)
    said = _turn_outputs(steps)
    left = len(_remaining_sides(topology, said))
    needed = max(NEEDED, min(policy.k or NEEDED, sides)) if policy.mode == "quorum" else NEEDED
    if left < needed:
        return [step for step in failed if step.brief < sides]
    decides = [step for step in steps if step.brief >= voting]
    over = decides and all(step.status in ("done", "failed") for step in decides)
    if over and not _counted_verdicts(work, said):
        return decides
    return [step for step in failed if not step.partial] if policy.mode == "all" else []


def _turn_problem(work: Work, step: Step) -> str:
    """Return the problem of a turn that the debate needs."""
    if step.status == "failed":
        return step.message
    return f"it is for {work.ctx.output(step.output_ref)['winner']}, whose proposal failed after it"


@value()
class TurnOutput:
    """The output of a turn."""

    brief: int
    ref: str
    """Reference of its output; "": none."""
    failed: bool


def _turn_outputs(steps: list[Step]) -> list[TurnOutput]:
    return [
        TurnOutput(one.brief, one.output_ref if one.status == "done" else "", one.status == "failed") for one in steps
    ]


def _list_passed(work: Work) -> list[TurnOutput]:
    """Return the turns' outputs of a passed fan-out. A fork has its output, but not its turns' steps."""
    named = [(brief["agent"], brief["title"]) for brief in slices.plan(work)["briefs"]]
    parts = work.ctx.output(work.run.stages[Stage.FAN_OUT].output_ref)
    # Parts of turns had no brief number once, only titles.
    briefs = (part["brief"] if "brief" in part else named.index((part["agent"], part["title"])) for part in parts)
    return [TurnOutput(brief, part["ref"], bool(part["gap"])) for brief, part in zip(briefs, parts, strict=True)]


def _counted_verdicts(work: Work, said: list[TurnOutput]) -> list[JSON]:
    """Return the verdict, or the votes, that count; one for a side whose proposal failed does not."""
    topology = _topology(work)
    voting, left = len(topology.workers) + len(topology.critics), _remaining_sides(topology, said)
    came = (work.ctx.output(one.ref) for one in said if one.brief >= voting and one.ref)
    return [one for one in came if one["winner"] in left]


def _remaining_sides(topology: DebateTopology, said: list[TurnOutput]) -> list[str]:
    """Return the sides without a failed proposal, in order."""
    sides = len(topology.workers)
    lost = {one.brief for one in said if one.failed and one.brief < sides}
    return [name for n, name in enumerate(topology.workers) if n not in lost]


def _list_next_turns(work: Work, steps: list[Step]) -> Iterable[NextTurn]:
    topology = _topology(work)
    sides, voting = len(topology.workers), len(topology.workers) + len(topology.critics)
    last = steps[-1].brief if steps else voting - 1
    if last >= voting:
        return []
    round_ = Counter(step.brief for step in steps if step.brief < sides).most_common(1)[0][1] if steps else 0
    if steps and last < sides and (critics := _critics(topology, steps)):
        return [NextTurn(topology.critics[n], sides + n, _list_proposals(topology, steps, round_)) for n in critics]
    if round_ < topology.rounds:
        return _round(topology, steps, round_ + 1)
    return _verdicts(topology, steps, round_)


def _critics(topology: DebateTopology, steps: list[Step]) -> list[int]:
    """Return the critics that have not failed, by their place."""
    lost = {step.brief - len(topology.workers) for step in steps if step.status == "failed"}
    return [n for n in range(len(topology.critics)) if n not in lost]


def _nth(steps: list[Step]) -> Iterable[tuple[Step, int]]:
    """Return each turn with its round: the number of earlier turns with its brief."""
    had: Counter[int] = Counter()
    for step in steps:
        had[step.brief] += 1
        yield step, had[step.brief]


def _list_proposals(topology: DebateTopology, steps: list[Step], round_: int) -> tuple[int, ...]:
    """Return the proposals of a round."""
    sides = len(topology.workers)
    return tuple(
        step.branch for step, nth in _nth(steps) if nth == round_ and step.brief < sides and step.status == "done"
    )


def _list_heard_turns(topology: DebateTopology, steps: list[Step], round_: int) -> tuple[int, ...]:
    """Return the turns of a round's proposals and criticisms."""
    voting = len(topology.workers) + len(topology.critics)
    return tuple(
        step.branch for step, nth in _nth(steps) if nth == round_ and step.brief < voting and step.status == "done"
    )


def _round(topology: DebateTopology, steps: list[Step], round_: int) -> list[NextTurn]:
    hears, left = _list_heard_turns(topology, steps, round_ - 1), set(_remaining_sides(topology, _turn_outputs(steps)))
    told = f"Round {round_} of {topology.rounds}."
    return [NextTurn(name, n, hears, told) for n, name in enumerate(topology.workers) if name in left]


def _verdicts(topology: DebateTopology, steps: list[Step], round_: int) -> list[NextTurn]:
    voting, left = len(topology.workers) + len(topology.critics), _remaining_sides(topology, _turn_outputs(steps))
    if topology.judge is not None:
        hears = tuple(step.branch for step in steps if step.status == "done")
        return [NextTurn(topology.judge, voting, hears, _choose(left), choices=tuple(left))]
    hears = _list_heard_turns(topology, steps, round_)
    turns = []
    for n, name in enumerate(topology.workers):
        if name in left:
            choices = tuple(one for one in left if one != name or len(left) == NEEDED)
            turns.append(NextTurn(name, voting + n, hears, _choose(choices), choices=choices))
    return turns


def _choose(choices: Iterable[str]) -> str:
    return f"The winner is one of: {', '.join(choices)}."


# -- the answer --------------------------------------------------------------------------------------------------------


def join_outputs(work: Work) -> StageOutput:
    """Conclude with the judge's verdict, or with the proposal that has most votes, and their count. The first worker
    wins a tie, which the text states.
    """
    topology, said = _topology(work), _list_passed(work)
    given = _counted_verdicts(work, said)
    votes = Counter(str(one["winner"]) for one in given)
    tied = _leading_sides(topology, votes)
    winner = tied[0]
    won = _build_last(work, said, topology.workers.index(winner))
    if topology.judge is not None:
        verdict = given[0]
        text = f"The verdict is for {winner}.\n\n{verdict['text']}"
        return StageOutput({"text": text, "citations": _citations(verdict, won)})
    return StageOutput(
        {"text": f"{_count_sentence(votes, winner, tied)}\n\n{won['text']}", "citations": _citations(won)}
    )


def _leading_sides(topology: DebateTopology, votes: Mapping[str, int]) -> list[str]:
    """Return the sides with most votes, in order."""
    most = max(votes.values(), default=0)
    return [name for name in topology.workers if votes.get(name, 0) == most]


def _build_last(work: Work, said: list[TurnOutput], side: int) -> JSON:
    """Return a side's last proposal."""
    return work.ctx.output([one.ref for one in said if one.brief == side and one.ref][-1])


def _count_sentence(votes: Mapping[str, int], winner: str, tied: list[str]) -> str:
    cast = sum(votes.values())
    shown = ", ".join(f"{name} {count}" for name, count in sorted(votes.items(), key=lambda one: (-one[1], one[0])))
    tie = f" It was a tie of {' and '.join(tied)}, which goes to who stands first among the sides." if tied[1:] else ""
    return f"The proposal of {winner} won with {votes[winner]} of {cast} votes ({shown}).{tie}"


def _citations(*said: JSON) -> list[str]:
    return list(dict.fromkeys(name for one in said for name in one["citations"]))
