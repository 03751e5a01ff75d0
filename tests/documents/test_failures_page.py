"""The table of causes in docs/specification/failures.md is made of ``CLASSIFY`` (``fabric/core/values/taxonomy.py``)."""

from __future__ import annotations

from console.launch.processes.data_directory import ROOT
from fabric.core.values.taxonomy import CLASSIFY, Cause, Classification, Direct, FailureType
from tests.documents.written import hold_table

PAGE = ROOT / "docs" / "specification" / "failures.md"
HEAD = """\
| failure type | causes | error class (S1) | flow class (S0) | signature | retried | failover |
|---|---|---|---|---|---|---|
"""


def written(row: Classification) -> str:
    """Returns the cells behind the causes, which have them together."""
    no = {False: "no", True: "yes"}
    cells = (row.error_class, row.flow_class, no[row.signature_counted], no[row.retried], row.fails_over_to)
    return f"{' | '.join(cells)} |"


def table() -> str:
    causes: dict[tuple[FailureType | Direct, str], list[Cause]] = {}
    for cause in Cause:
        row = CLASSIFY[cause]
        causes.setdefault((row.goes_to, written(row)), []).append(cause)
    order = [*FailureType, *Direct]
    rows = sorted(causes.items(), key=lambda one: order.index(one[0][0]))
    return HEAD + "".join(
        f"| {where.replace('_', ' ')} | {', '.join(f'`{one}`' for one in named)} | {cells}\n"
        for (where, cells), named in rows
    )


def test_the_table_says_how_each_cause_is_classified() -> None:
    hold_table(PAGE, "Causes", table())
