"""Callable tools at publication: what is refused says which field it is about, and what to do."""

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.http.transport import Gate
from fabric.services.fabrics.publication.rules import publication_problems
from fabric.services.fabrics.templates import template_get
from fabric.services.installation.facts import InstallationFacts
from fabric.tools.functions.named_tools import build_tools
from fabric.tools.functions.permits import Permits
from tests.fabric.services.fabrics.publication.test_rules import small, tool
from tests.fabric.tools.functions.marked import NAMED

WAYS = "there are: cancels, changes, drill-lookup, looks, paper-pay, paper-release, paper-reserve, pays, unasked"


def function(target: str, **changes: object) -> dict[str, object]:
    same = {"name": target, "kind": "callable", "description": "D.", "parameters": {"type": "object"}}
    return {**same, "target": target, **changes}


def told(spec: FabricSpec, *variables: str) -> list[tuple[str, str]]:
    permits = Permits(variables=frozenset(variables), tools=build_tools(NAMED))
    found = publication_problems(spec, InstallationFacts(Gate(), permits))
    return [(one.path, one.sentence) for one in found if one.path.startswith("tools")]


CANCELS = function("cancels", effect="idempotent")
PAYS = function("pays", effect="irreversible")


@pytest.mark.parametrize(
    ("tools", "variables", "said"),
    [
        ((function("changes", effect="mutating", compensation="cancels"), CANCELS), (), []),
        ((PAYS,), ("ACME_KEY",), []),
        (
            (PAYS,),
            (),
            [
                (
                    "tools.1.target",
                    "tool 'pays': it is given the variable ACME_KEY, which is not allowed; have the operator add ACME_KEY to FABRIC_TOOL_VARIABLES",
                )
            ],
        ),
        (
            (function("os.system", name="x"),),
            (),
            [
                (
                    "tools.1.target",
                    f"tool 'x': 'os.system' is no tool that the operator names here; {WAYS}; use one of them, or have the operator add NAME=dotted.path to FABRIC_TOOLS and give NAME",
                )
            ],
        ),
        (
            (function("pays"),),
            ("ACME_KEY",),
            [
                (
                    "tools.1.effect",
                    "tool 'pays': is declared read_only, but the operator's 'pays' is irreversible; declare it irreversible",
                )
            ],
        ),
        (
            (
                function("changes", effect="mutating", compensation="other"),
                function("paper-release", name="other", effect="idempotent"),
            ),
            (),
            [
                (
                    "tools.1.compensation",
                    "tool 'changes': the operator's 'changes' is not undone by 'other'; name a callable tool with target 'cancels'",
                )
            ],
        ),
    ],
)
def test_a_function_is_used_as_the_operator_s_word_has_it(tools, variables, said):
    assert told(small(tools=[tool(), *tools]), *variables) == said


def test_the_template_that_pays_says_of_the_paper_bank_what_it_is():
    assert told(template_get("payment-approval").spec) == []
