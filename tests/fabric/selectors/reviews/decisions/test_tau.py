"""Decisions about unsure results say something of tau: never more than they show."""

import pytest

from fabric.selectors.reviews.decisions.figures import ENOUGH, DecisionFigures, TauPosition, tau_judged


def band(name="0", *, approved=0, edited=0, rejected=0, responded=0, expired=0, tau=(0.7, 0.7)):
    count = approved + edited + rejected + responded + expired
    verbs = {"approved": approved, "edited": edited, "rejected": rejected, "responded": responded}
    return DecisionFigures(name=name, count=count, expired=expired, tau_least=tau[0], tau_most=tau[1], **verbs)


@pytest.mark.parametrize(
    ("bands", "sits"),
    [
        ([], TauPosition.UNASKED),
        ([band(expired=50)], TauPosition.UNASKED),
        ([band(approved=ENOUGH - 1)], TauPosition.UNKNOWN),
        ([band(approved=ENOUGH - 1, expired=9)], TauPosition.UNKNOWN),
        ([band("3", approved=500)], TauPosition.UNKNOWN),
        ([band(approved=18, rejected=2)], TauPosition.HIGH),
        ([band(approved=17, rejected=3)], TauPosition.RIGHT),
        ([band(approved=10, rejected=10)], TauPosition.RIGHT),
        ([band(approved=9, edited=6, responded=5)], TauPosition.LOW),
    ],
)
def test_where_tau_sits(bands, sits):
    assert tau_judged(bands).sits is sits


def test_it_states_its_counts():
    said = tau_judged([band(approved=30, edited=4, rejected=5, responded=1, tau=(0.65, 0.7))]).sentence
    assert said == (
        "of 40 results that scored up to 0.1 below the needed score (0.65 to 0.7), people approved 30 unchanged, edited, declined or rejected 9 and sent back 1: "
        "nothing here suggests another needed score"
    )
    assert "3 of the 20 needed" in tau_judged([band(rejected=3)]).sentence
