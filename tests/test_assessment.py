"""Figures as people say them."""

import pytest

from asynctask.assessment import time_in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (2e-5, "20 µs"),
        (0.0005, "500 µs"),
        (0.0015, "1.5 ms"),
        (0.029, "29 ms"),
        (0.05, "50 ms"),
        (0.999, "999 ms"),
        (1.0, "1 s"),
        (60 * 0.05 / 0.97, "3.1 s"),
        (15.46, "15.5 s"),
        (300, "300 s"),
        (599.9, "600 s"),
        (600, "10 min"),
        (1_030, "17.2 min"),
        (20_000, "5.6 h"),
        (700_000, "8.1 d"),
        (1e9, "11,574 d"),
    ],
)
def test_times(seconds: float, words: str) -> None:
    """A fitting unit and about three digits."""
    assert time_in_words(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(4.98, "4.98 s"), (5.001, "5.001 s"), (10.04, "10.04 s")])
def test_a_time_near_a_limit_is_not_rounded_onto_it(seconds: float, words: str) -> None:
    """4.98 s is under 5 s, so it must not be shown as 5 s."""
    assert time_in_words(seconds) == words


@pytest.mark.parametrize("seconds", [0.00123, 0.0123, 0.123, 0.9994, 1.23, 12.3, 599.4, 5_399, 172_799, 8e7])
def test_short_times_fit_a_column(seconds: float) -> None:
    """In a table two digits do, and seven characters."""
    assert len(time_in_words(seconds, exact=False)) <= 7
