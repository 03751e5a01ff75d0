import pytest
from django.template import Context, Template

from console.templatetags.figures import capped_count, share, size, span, thousands, usd, usd_column


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (0, "$0.0000"),
        (31_200, "$0.0312"),
        (123, "$0.000123"),
        (2_161_400, "$2.1614"),
        (1_234_567_890_000, "$1,234,567.8900"),
        (-5, "-$0.000005"),
        (None, "unpriced"),
    ],
)
def test_money_is_never_rounded_away(micros, shown):
    assert usd(micros) == shown


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (0, "0 ms"),
        (400, "0.4 ms"),
        (84_200, "84 ms"),
        (400_000, "400 ms"),
        (999_700, "1.0 s"),
        (1_400_000, "1.4 s"),
        (9_970_000, "10 s"),
        (59_400_000, "59 s"),
        (460_000_000, "7 m 40 s"),
        (3_600_000_000, "1 h"),
        (86_399_600_000, "1 d"),
        (90_061_000_000, "1 d 1 h"),
        (None, "–"),
    ],
)
def test_durations_in_their_two_largest_units(micros, shown):
    assert span(micros) == shown


def test_sizes_and_counts():
    assert [size(n) for n in (10, 2048, 3 << 20)] == ["10 bytes", "2.0 KB", "3.0 MB"]
    assert thousands(1234567) == "1,234,567"


@pytest.mark.parametrize(("part", "whole", "percent"), [(0, 10, 0), (999, 1000, 99), (5, 0, 0), (20, 10, 100)])
def test_shares(part, whole, percent):
    assert share(part, whole) == percent


def test_an_instant_is_utc_and_says_so():
    shown = Template("{% load figures %}{% instant 1800000000250000 %}{% instant None %}").render(Context())
    assert 'datetime="2027-01-15T08:00:00.250Z"' in shown
    assert ">08:00:00.2</time>–" in shown


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (None, "unpriced"),
        (0, "$0.0000"),
        (49, "<$0.0001"),
        (50, "$0.0001"),
        (3_381, "$0.0034"),
        (250_000, "$0.2500"),
        (1_234_567_890, "$1,234.5679"),
        (-3_381, "-$0.0034"),
    ],
)
def test_money_in_a_column_has_one_precision(micros, shown):
    assert usd_column(micros) == shown


def test_counts_are_capped():
    assert [capped_count(count) for count in (0, 1, 100, 101)] == ["", "1", "100", "100+"]
