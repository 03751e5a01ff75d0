"""The auditor judges each decision of a run again, from the run's journal (docs/specification/derivation.md)."""

from fabric.auditor.comparison import Derived, Difference, Verdict, derive_all
from fabric.auditor.ledger import Ledger, note
from fabric.auditor.walk import Otherwise, compare_tiers

__all__ = [
    "Derived",
    "Difference",
    "Ledger",
    "Otherwise",
    "Verdict",
    "compare_tiers",
    "derive_all",
    "note",
]
