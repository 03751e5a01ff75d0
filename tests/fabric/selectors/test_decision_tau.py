"""What decisions about unsure results say of tau: never more than they show."""

import pytest

from fabric.selectors.decision_figures import Figures
from fabric.selectors.decision_tau import ENOUGH, Sits, tau_judged


def band(name="0", *, approved=0, edited=0, rejected=0, responded=0, expired=0, tau=(0.7, 0.7)):
    count = approved + edited + rejected + responded + expired
    verbs = {"approved": approved, "edited": edited, "rejected": rejected, "responded": responded}
    return Figures(name=name, count=count, expired=expired, tau_least=tau[0], tau_most=tau[1], **verbs)


@pytest.mark.parametrize(
    ("bands", "sits"),
    [
        ([], Sits.UNASKED),
        ([band(expired=50)], Sits.UNASKED),
        ([band(approved=ENOUGH - 1)], Sits.UNKNOWN),
        ([band(approved=ENOUGH - 1, expired=9)], Sits.UNKNOWN),
        ([band("3", approved=500)], Sits.UNKNOWN),
        ([band(approved=18, rejected=2)], Sits.HIGH),
        ([band(approved=17, rejected=3)], Sits.RIGHT),
        ([band(approved=10, rejected=10)], Sits.RIGHT),
        ([band(approved=9, edited=6, responded=5)], Sits.LOW),
    ],
)
def test_where_tau_sits(bands, sits):
    assert tau_judged(bands).sits is sits


def test_it_states_its_counts():
    said = tau_judged([band(approved=30, edited=4, rejected=5, responded=1, tau=(0.65, 0.7))]).sentence
    assert said == (
        "of 40 results that scored up to 0.1 below tau (0.65 to 0.7), people approved 30 as they were, edited, declined or rejected 9 and sent back 1: "
        "nothing in this speaks for moving tau"
    )
    assert "3 of the 20 needed" in tau_judged([band(rejected=3)]).sentence
