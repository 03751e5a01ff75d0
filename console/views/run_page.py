"""What a run's page shows, worked out from its view: words, tones, the five stages. The same for whoever looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from console.templatetags.marks import EVENT_ICONS
from fabric.core.flow import RunState, Stage
from fabric.selectors.display import EVENT_DISPLAY, tone_of, words
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.runs import EventView, RunView

JSON = Any

StageState = Literal["passed", "current", "waiting", "stopped", "ahead"]


@dataclass(frozen=True, slots=True)
class StageMark:
    """One stage of the five as the header shows it."""

    name: str
    state: StageState

    @property
    def x(self) -> int:
        """Where it begins in a bar of five, percent."""
        return 20 * list(Stage).index(Stage(self.name))

    @property
    def tone(self) -> str:
        """Its tone."""
        return {"passed": "ok", "current": "info", "waiting": "human", "stopped": "danger", "ahead": "neutral"}[
            self.state
        ]

    @property
    def word(self) -> str:
        """What has become of it."""
        return {
            "passed": "passed",
            "current": "in progress",
            "waiting": "waits for a person",
            "stopped": "ended here",
            "ahead": "not reached",
        }[self.state]

    @property
    def icon(self) -> str:
        """Its icon."""
        return {"passed": "check", "current": "run", "waiting": "human", "stopped": "x", "ahead": "minus"}[self.state]


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run with everything that its panels say about it."""

    run: RunView
    cap_usd_micros: int
    """Most that this run may spend."""
    outcome: dict[str, JSON] | None = None

    @property
    def stages(self) -> list[StageMark]:
        """The five, in order, as far as the run's row tells: what lies behind its stage has passed in this epoch."""
        order = list(Stage)
        if self.run.state is RunState.COMPLETED:
            return [StageMark(stage, "passed") for stage in order]
        if not self.run.stage:
            return [StageMark(stage, "ahead") for stage in order]
        here = order.index(Stage(self.run.stage))
        now: StageState = "current"
        if self.run.terminal:
            now = "stopped"
        elif self.run.state is RunState.WAITING:
            now = "waiting"
        return [StageMark(s, "passed" if n < here else now if n == here else "ahead") for n, s in enumerate(order)]

    @property
    def took(self) -> int | None:
        """From the request to the end, microseconds; None while it goes on."""
        return None if self.run.ended_at is None else self.run.ended_at - self.run.created_at

    @property
    def cost_tone(self) -> str:
        """Grey until the cap is near."""
        spent = 100 * self.run.cost_usd_micros // self.cap_usd_micros if self.cap_usd_micros else 0
        return "danger" if spent >= 90 else "warn" if spent >= 70 else "neutral"

    @property
    def may_cancel(self) -> bool:
        """Whether cancelling would still change anything."""
        return not self.run.terminal and self.run.state is not RunState.CANCELLING

    @property
    def partial(self) -> bool:
        """Whether the outcome is only what there was when the run was stopped."""
        return self.outcome is not None and self.run.state is not RunState.COMPLETED

    @property
    def verdict(self) -> str:
        """How it ended, in a sentence's beginning; the reason follows it."""
        return {
            RunState.COMPLETED: "The run has finished.",
            RunState.FAILED: "The run could not finish.",
            RunState.ABORTED: "The run was stopped.",
            RunState.CANCELLED: "The run was cancelled.",
        }.get(self.run.state, "")

    @property
    def reason(self) -> str:
        """Why, where it says more than the verdict."""
        reason = self.run.reason.strip()
        return "" if reason == "finished" else reason


TEXT_HEADINGS = {"text": "Text", "message": "Message"}
"""Keys of a content that hold running text, with the heading they get."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event as a row."""

    event: EventView

    @property
    def label(self) -> str:
        """What happened, in two or three words."""
        row = EVENT_DISPLAY.get(self.event.kind)
        return row.label if row else self.event.kind.replace("_", " ")

    @property
    def icon_id(self) -> str:
        """The sprite's symbol."""
        row = EVENT_DISPLAY.get(self.event.kind)
        return EVENT_ICONS[row.icon] if row else "unknown"

    @property
    def previous(self) -> int:
        """The seq before."""
        return self.event.seq - 1

    @property
    def following(self) -> int:
        """The seq after."""
        return self.event.seq + 1

    @property
    def texts(self) -> list[tuple[str, str]]:
        """What somebody wrote, to be read as text: a request, an answer, a message."""
        content = self.event.content
        if isinstance(content, str):
            return [(self.label, content)] if content else []
        body = content.get("output", content) if isinstance(content, dict) else None
        if not isinstance(body, dict):
            return []
        return [
            (TEXT_HEADINGS[key], body[key]) for key in TEXT_HEADINGS if isinstance(body.get(key), str) and body[key]
        ]

    @property
    def content_rest(self) -> JSON:
        """The content where it is more than one text; None when there is nothing more to show."""
        content = self.event.content
        only_text = isinstance(content, str) or (isinstance(content, dict) and set(content) <= set(TEXT_HEADINGS))
        return None if only_text else content

    @property
    def tone(self) -> str:
        """Its tone; neutral rows are left uncoloured."""
        return tone_of(self.event.kind, self.event.fact)

    @property
    def weight(self) -> int:
        """0 detail to 3 a person should see it."""
        row = EVENT_DISPLAY.get(self.event.kind)
        return row.importance if row else 1

    @property
    def where(self) -> str:
        """The agent it is about, else the step, else the stage: ``reader``, ``fan-out 2``, ``validate``."""
        fact = self.event.fact
        if fact.get("agent"):
            return str(fact["agent"])
        stage, _, rest = str(fact.get("step_id") or fact.get("stage") or "").partition(".")
        branch = rest.partition(".")[0]
        return f"{words(stage)} {int(branch) + 1}" if stage == Stage.FAN_OUT and branch.isdecimal() else words(stage)


@lru_cache(maxsize=256)
def cap_of(revision_id: str) -> int:
    """Most that a run of this revision may spend, micro-dollars. A revision never changes."""
    return revision_spec(revision_id).policy.budget.run_usd_micros
