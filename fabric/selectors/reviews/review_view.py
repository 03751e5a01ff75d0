"""One review as its reader sees it: its content, masked for readers without the right."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import RunState
from fabric.core.values.units import JSON
from fabric.models.reviews import FOLLOW_UP
from fabric.selectors.contents import mask_content, unread

TOLD = (
    *("agent", "tool", "compensation", "expiry", "mechanism", "cause", "rule"),
    *("observed", "limit", "unit", "spent_usd_micros", "cap_usd_micros"),
)
"""Fields of a review's content with names, numbers and the program's own words. Every viewer sees these, and the effect
of each answer.
"""


@dataclass(frozen=True, kw_only=True)
class ReviewView:
    """One review. Instants are microseconds since the epoch, UTC."""

    id: str
    workspace_id: str
    run_id: str
    run_title: str
    run_state: str
    fabric_name: str
    tier: str
    """Tier of the run."""
    revision_id: str
    """Revision that the run pinned."""
    step_id: str
    item: str
    """``failure``, ``post_stage``, ``pre_action``, ``quarantine``, ``compensation``, ``child`` or ``follow_up``."""
    reason: str
    failure_type: str
    stage: str
    required_role: str
    verbs: tuple[str, ...]
    """Possible answers."""
    digest: str
    """Digest of the content that an approval releases; a decision names it."""
    opened_at: int
    due_at: int
    given: dict[str, JSON] = field(repr=False)
    """Content of the review, byte for byte. Answers are checked against it, and the role safety may have it
    revealed.
    """
    decided_at: int | None
    verb: str
    decided_by: str
    by_system: bool
    approvals: int = 1
    """Number of people who have to agree."""
    asked: tuple[str, ...] = ()
    """Roles and users who may answer from the beginning, in the order of their display."""
    onward_to: tuple[str, ...] = ()
    """Further roles and users once it was passed on."""
    barred: tuple[str, ...] = ()
    """People who may only reject."""
    agreed: tuple[str, ...] = ()
    """Earlier approvers of exactly the present content, where two have to agree."""
    proposed_by: str = ""
    """Author of the content, where another person has to approve it."""
    remind_at: int = 0
    onward_at: int = 0
    reminded: bool = False
    onward: bool = False
    """True if it was passed on."""
    score: float | None = None
    """The critic's score, where low confidence caused the review."""
    tau: float | None = None
    """Least score that passes."""
    revealed: bool = False
    """True if its masked parts were revealed (``services.reviews.reveals``)."""
    reads: bool = True
    """True: the reader has the right to contents, or the review asks the reader."""

    @cached_property
    def content(self) -> dict[str, JSON]:
        """Return the content of the review. Credentials are masked until revealed; a reader without the right sees
        its size alone.
        """
        if not self.reads:
            named = {name: self.given[name] for name in (*TOLD, *self.verbs) if name in self.given}
            return named | unread(len(encode(self.given)))
        found: dict[str, JSON] = self.given if self.revealed else mask_content(self.given)
        return found

    @cached_property
    def withheld(self) -> bool:
        """Return True if part of the content is masked."""
        return self.reads and not self.revealed and self.content != self.given

    @property
    def second_wanted(self) -> bool:
        """Return True if one person has agreed and another one is awaited."""
        return self.open and len(self.agreed) < self.approvals and bool(self.agreed)

    @property
    def follow_up(self) -> bool:
        """Return True if it parks nothing: its run has ended."""
        return self.item == FOLLOW_UP

    @property
    def open(self) -> bool:
        """Return True while it waits for an answer."""
        return self.decided_at is None

    @property
    def held(self) -> bool:
        """Return True while its run is quarantined for another reason: until then it takes no answer."""
        return self.run_state == RunState.QUARANTINED and self.item != "quarantine"

    @property
    def cursor(self) -> str:
        """Return the cursor that ``list_open_reviews`` takes as ``after`` to continue after this review."""
        return f"{self.due_at}.{self.id}"
