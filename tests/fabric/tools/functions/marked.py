"""Functions whose marks speak of one another: ``NAMED`` is what an operator named of them who named all that is needed."""

from fabric.tools.functions.callables import tool

HERE = "tests.fabric.tools.functions.marked"


@tool(effect="read_only")
def looks(key, args):
    return {"executed": False}


@tool(effect="idempotent")
def cancels(key, args=None, result=None):
    return key


@tool(effect="mutating", undone_by=cancels, reconciled_by=looks)
def changes(what):
    return what


@tool(effect="mutating", undone_by=cancels)
def unasked(what):
    return what


@tool(effect="mutating", undone_by=looks)
def undone_by_none(what):
    return what


@tool(effect="mutating", undone_by=cancels, reconciled_by=cancels)
def asked_by_change(what):
    return what


@tool(effect="irreversible", variables=("ACME_KEY",))
def pays(what):
    return what


NAMED = {name: f"{HERE}.{name}" for name in ("looks", "cancels", "changes", "unasked", "pays")}
