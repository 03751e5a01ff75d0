"""Each decision derived again from the journal alone, and compared (semantics.md, general rules; docs/design.md 2.4)."""

from fabric.core.derivation.asked import Rules
from fabric.core.derivation.compare import Derived, Difference, Verdict, derived_all
from fabric.core.derivation.ledger import Ledger, noted
from fabric.core.derivation.walk import Otherwise, derive, otherwise

__all__ = [
    "Derived",
    "Difference",
    "Ledger",
    "Otherwise",
    "Rules",
    "Verdict",
    "derive",
    "derived_all",
    "noted",
    "otherwise",
]
