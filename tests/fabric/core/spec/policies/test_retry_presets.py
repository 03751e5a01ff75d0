"""S1's presets to the number, at their boundaries."""

import pytest

from fabric.core.spec.policies.retries import (
    CAP_S,
    MODEL_CALLS,
    PRESETS,
    PresetName,
    RetryPreset,
    delay_s,
    preset_of_count,
    resolve,
)

LAST = 1.0 - 2.0**-53
"""The greatest draw there is."""


def waits(preset, draw=0.5):
    """Every wait of a preset; the draw in the middle is a factor of 1."""
    found = []
    while (wait := delay_s(preset, len(found) + 1, draw)) is not None:
        found.append(wait)
    return found


def test_every_preset_has_its_row():
    assert set(PRESETS) == set(PresetName)


@pytest.mark.parametrize(
    ("preset", "seconds"),
    [
        (PRESETS[PresetName.NONE], []),
        (PRESETS[PresetName.STANDARD], [0.2, 0.4, 0.8, 1.6]),
        (PRESETS[PresetName.AGGRESSIVE], [0.5, 1.0, 2.0, 4.0]),
        (PRESETS[PresetName.LINEAR], [0.5, 0.5]),
        (PRESETS[PresetName.PATIENT], [2.0, 6.0]),
        (MODEL_CALLS, [1.0, 2.0, 4.0]),
        (preset_of_count(3), [5.0, 10.0, 20.0]),
        (preset_of_count(0), []),
    ],
)
def test_the_typical_waits_are_the_source_s(preset, seconds):
    assert waits(preset) == pytest.approx(seconds)


def test_jitter_is_from_a_half_to_one_and_a_half():
    assert delay_s(MODEL_CALLS, 1, 0.0) == 0.5
    assert delay_s(MODEL_CALLS, 1, LAST) == pytest.approx(1.5)
    assert delay_s(MODEL_CALLS, 1, LAST) < 1.5 + 1e-9


def test_a_wait_is_capped_after_jitter():
    many = preset_of_count(2_000)
    assert delay_s(many, 4, 0.5) == 40.0
    assert delay_s(many, 4, LAST) == CAP_S  # 40 s would have become 60 s and a little less than nothing more.
    assert delay_s(many, 5, 0.0) == 40.0
    assert delay_s(many, 5, 0.5) == CAP_S
    assert delay_s(many, 2_000, 0.0) == CAP_S


def test_the_last_attempt_is_allowed_and_none_after_it():
    assert delay_s(MODEL_CALLS, 3, 0.5) is not None
    assert delay_s(MODEL_CALLS, 4, 0.5) is None
    assert delay_s(MODEL_CALLS, 5, 0.5) is None


@pytest.mark.parametrize(("attempt", "draw"), [(0, 0.5), (-1, 0.5), (1, 1.0), (1, -0.1), (1, float("nan"))])
def test_what_is_no_attempt_or_no_draw_is_refused(attempt, draw):
    with pytest.raises(ValueError, match="attempts count from 1"):
        delay_s(MODEL_CALLS, attempt, draw)


@pytest.mark.parametrize(
    ("given", "preset"),
    [
        (("patient", 9, 7), PRESETS[PresetName.PATIENT]),
        (("none", 9, 7), RetryPreset(1, 0.0, 1.0)),
        ((None, 9, 7), RetryPreset(10, 5.0, 2.0)),
        ((None, 0, 7), RetryPreset(1, 5.0, 2.0)),
        ((None, None, 7), RetryPreset(8, 5.0, 2.0)),
        ((None, None, 0), RetryPreset(1, 5.0, 2.0)),
        ((None, None, None), RetryPreset(4, 5.0, 2.0)),
    ],
)
def test_the_node_s_preset_beats_its_count_beats_the_graph_s(given, preset):
    assert resolve(*given) == preset


def test_what_cannot_be_is_refused_by_name():
    with pytest.raises(ValueError, match="retry_policy is 'heroic'.*none, standard, aggressive, linear, patient"):
        resolve("heroic")
    with pytest.raises(ValueError, match="max_retries is -1"):
        resolve(None, -1)
