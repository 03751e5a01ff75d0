"""People's messages to the conversation of a run: whether it takes any, what was said, and what became of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fabric.core.child_runs.teams import map_specs
from fabric.core.events.inputs import INBOX, ContextGiven, PersonSpoke
from fabric.core.people.actor import Actor
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.core.values.flow import TERMINAL, RunState
from fabric.models import Event, Inbox
from fabric.selectors.contents import UNREAD_LINE, line_for, read_content
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.runs.families import find_team
from fabric.selectors.runs.lookup import RunView
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.parts import SpokenMessage

SAY = "say:"
"""Prefix of a message's input id."""
SHOWN_MAX = 20
"""Messages that are shown with their words, the newest."""
ENDING = frozenset({RunState.CANCELLING, RunState.UNWINDING})
"""States without speakers, in which the run has not ended yet."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that was sent. ``seq`` 0: the run has not taken it yet."""

    seq: int
    at: int
    """When it was taken, or sent; microseconds since the epoch, UTC."""
    actor: str
    text: str | None
    """None: it was erased, or was not kept since the run did not take it."""
    said: SpokenMessage | None = None
    """Fate of the message; None: on its way."""


def takes_turns(run: RunView) -> bool:
    """Return True where the run has a conversation that can read a message: its workers take turns, or hand over."""
    spec = revision_spec(run.revision_id)
    teams = map_specs(spec)  # Without any, nothing has to be asked about the run.
    return is_conversation(teams.get(find_team(run), spec).topology if teams else spec.topology)


def closed_because(run: RunView, story: RunStory | None) -> str:
    """Return why no turn reads a message any more, as the end of a sentence. Empty: the next turn does."""
    if run.state in TERMINAL:
        return "the run has ended"
    if run.state in ENDING:
        return "the run is ending"
    closed = story.run.talk.closed if story is not None and story.run is not None else ""
    return f"the conversation is closed ({closed})" if closed else ""


def find_given(actor: Actor, run_id: str, input_id: str) -> PersonSpoke | ContextGiven | None:
    """The message or change of variables that was sent under an id; None: none was, or it was erased."""
    rows = Inbox.objects.filter(workspace_id=actor.workspace_id, run_id=run_id, input_id=input_id)
    body = rows.values_list("body", flat=True).first()
    given = INBOX.validate_json(bytes(body)) if body else None
    return given if isinstance(given, PersonSpoke | ContextGiven) else None


def find_messages(actor: Actor, run: RunView, story: RunStory) -> tuple[list[SentMessage], int]:
    """The newest messages, the latest last, and how many were said before them."""
    newest = story.said[-SHOWN_MAX:]
    words = _words(actor, run, (said.seq for said in newest if not said.refused))
    taken = [SentMessage(said.seq, said.at, said.actor, words.get(said.seq), said) for said in newest]
    return [*taken, *(() if run.terminal else _list_on_their_way(actor, run))], len(story.said) - len(newest)


def _words(actor: Actor, run: RunView, seqs: Iterable[int]) -> dict[int, str]:
    wanted = list(seqs)
    if not wanted or not run.reads:
        return dict.fromkeys(wanted, UNREAD_LINE)
    rows = Event.objects.filter(run_id=run.id, workspace_id=actor.workspace_id, seq__in=wanted)
    contents = ((seq, read_content(payload)) for seq, payload in rows.values_list("seq", "payload"))
    return {seq: str(content["text"]) for seq, content in contents if isinstance(content, dict) and "text" in content}


def _list_on_their_way(actor: Actor, run: RunView) -> list[SentMessage]:
    rows = Inbox.objects.filter(workspace_id=actor.workspace_id, run_id=run.id, consumed_seq__isnull=True)
    found = rows.filter(input_id__startswith=SAY).order_by("created_at", "input_id")
    sent = ((at, INBOX.validate_json(bytes(body))) for at, body in found.values_list("created_at", "body")[:SHOWN_MAX])
    return [
        SentMessage(0, at, given.actor, line_for(given.text, reads=run.reads))
        for at, given in sent
        if isinstance(given, PersonSpoke)
    ]
