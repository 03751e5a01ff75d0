"""Edits the rules of a graph as a list of transitions. Each has a sentence on its effect, and a group of some kind for
its condition and its target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.forms.controls.fields import MISSING, EditField
from console.forms.controls.schemas import properties_of
from console.forms.drafts.shape import kinds_at
from console.words.graphs import condition_words, restart_words, target_words

DEPTH_SHOWN = 4
"""Conditions within conditions that have forms of their own; what is deeper is edited in the YAML part."""
CONDITIONS = {
    "always": "always",
    "from_speaker": "one of them spoke",
    "tool_called": "a tool was called",
    "context_equals": "a variable has a value",
    "context_text": "a variable compares with a text or number",
    "outcome_is": "the turn ended so",
    "error_class_is": "the turn failed so",
    "all_of": "all of these are true",
    "any_of": "one of these is true",
    "not": "this is false",
    "registered": "a condition of the installation",
}
TARGETS = {
    "agent": "one of them speaks",
    "round_robin": "the next in their order speaks",
    "stay": "the same agent speaks again",
    "revert_to_initiator": "the initiator speaks",
    "terminate": "it ends",
    "registered": "a target of the installation",
}
"""Kinds in words. Total, by test."""


@dataclass(frozen=True, slots=True)
class KindForm:
    """A condition or a target: which kind it is, and that kind's fields."""

    path: str
    kind: EditField
    fields: tuple[EditField, ...] = ()
    inner: tuple[KindForm, ...] = ()
    """Conditions within it."""
    listed: str = ""
    """The list of those, where there may be several."""
    deeper: bool = False
    """True if it contains more than is shown."""

    @property
    def changed(self) -> bool:
        """True if the kind, a field or an inner part is changed."""
        return any(one.changed for one in (self.kind, *self.fields)) or any(one.changed for one in self.inner)


@dataclass(frozen=True, slots=True)
class RuleForm:
    """One transition."""

    path: str
    number: int
    sentence: str
    order: EditField
    restart: EditField
    when: KindForm
    then: KindForm
    about: tuple[Any, ...] = ()
    """Problems of the whole."""
    errors: int = 0
    warnings: int = 0
    """Within it, too."""
    changed: bool = False
    open: bool = False
    """True if its forms are open: after a problem, a change or a request."""


SHOWN = (
    "initial_speaker",
    "initiator",
    "transitions",
    "default_target",
    "retry_target",
    "fallback_retry_target",
    "goal_target",
    "retry_targets",
    "max_turns",
    "max_visits",
    "ttl_s",
    "context",
    "expectations",
)
"""Fields of a graph that these forms have."""


@dataclass(frozen=True, slots=True)
class TargetsForm:
    """The workers that one worker's failures lead back to."""

    path: str
    name: str
    fields: tuple[EditField, ...]


def build(editing: Editing, base: str = "topology") -> dict[str, Any]:
    """The rules in the order in which they are written, what holds where none applies, and the bounds. ``base``: where
    the graph stands, in a team elsewhere.
    """
    place = f"{base}.transitions"
    rules = [_rule(editing, f"{place}.{n}", n + 1) for n in range(editing.count(place))]
    given = editing.at(f"{base}.default_target") not in (MISSING, None)
    workers = editing.field(f"{base}.workers").picked
    return {
        "base": base,
        "rules": rules,
        "about": editing.about(place),
        "begins": editing.fields(base, "initial_speaker", "initiator"),
        "back": editing.fields(base, "retry_target", "fallback_retry_target", "goal_target"),
        "targets": [
            TargetsForm(path, name, tuple(editing.fields(path, "retry_target", "fallback_retry_target")))
            for name in workers
            for path in (f"{base}.retry_targets.{name}",)
        ],
        "about_targets": editing.about(f"{base}.retry_targets"),
        "bounds": editing.fields(base, "max_turns", "ttl_s", "context"),
        "visits": _visits(editing, f"{base}.max_visits", workers),
        "about_visits": editing.about(f"{base}.max_visits"),
        "visits_else": editing.field("policy.limits.max_node_visits"),
        "otherwise": _kind(editing, f"{base}.default_target", TARGETS) if given else None,
        "expectations": [
            (path, editing.fields(path, "seconds", "on_violation"))
            for n in range(editing.count(f"{base}.expectations"))
            for path in (f"{base}.expectations.{n}",)
        ],
    }


def _visits(editing: Editing, place: str, workers: tuple[str, ...]) -> list[tuple[str, EditField]]:
    """Return how often each worker may have a turn, and limits for names that are no workers."""
    written = editing.at(place)
    named = dict.fromkeys((*workers, *(written if isinstance(written, dict) else ())))
    return [(name, editing.field(f"{place}.{name}")) for name in named]


def _rule(editing: Editing, path: str, number: int) -> RuleForm:
    written = editing.at(path)
    rule = written if isinstance(written, dict) else {}
    within = [one.level for one in editing.checked.findings if one.path == path or one.path.startswith(f"{path}.")]
    order, restart = editing.fields(path, "order", "restart")
    when, then = _kind(editing, f"{path}.when", CONDITIONS), _kind(editing, f"{path}.then", TARGETS)
    changed = order.changed or restart.changed or when.changed or then.changed
    return RuleForm(
        path,
        number,
        f"If {condition_words(rule.get('when'))}, {target_words(rule.get('then'))}{restart_words(rule)}.",
        order,
        restart,
        when,
        then,
        about=editing.about(path),
        errors=within.count("error"),
        warnings=within.count("warning"),
        changed=changed,
        open=bool(within) or changed or editing.asked.get("open", "") == path,
    )


def _kind(editing: Editing, path: str, words: dict[str, str], depth: int = 1) -> KindForm:
    kind = editing.field(f"{path}.kind", **words)
    group = kinds_at(path).get(kind.text)
    if group is None:
        return KindForm(path, kind)
    names = list(properties_of(group))
    plain = [name for name in names if name not in ("kind", "conditions", "condition")]
    fields = tuple(editing.field(f"{path}.{name}") for name in plain)
    within = (
        [f"{path}.conditions.{n}" for n in range(editing.count(f"{path}.conditions"))] if "conditions" in names else []
    )
    within += [f"{path}.condition"] if "condition" in names else []
    if within and depth == DEPTH_SHOWN:
        return KindForm(path, kind, fields, deeper=True)
    inner = tuple(_kind(editing, one, words, depth + 1) for one in within)
    return KindForm(path, kind, fields, inner, f"{path}.conditions" if "conditions" in names else "")
