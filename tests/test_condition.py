"""The trigger condition: what is in scope, and what is then to be done."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asynctask.condition import Assessment, Condition, History, assess
from asynctask.errors import ConfigurationError

EXAMPLE = (
    "6,000 × 50 ms is 300 s one by one, 3.1 s at 100 at once: "
    "in scope, but stay synchronous at that concurrency"
)


def type_and_size(value: object) -> str:
    """A test id: pytest would print the number, and an integer of 5,000 digits cannot be printed."""
    return (
        f"{type(value).__name__}-{value}" if not isinstance(value, int) else f"int-{value.bit_length()}-bits"
    )


def test_the_example_in_words() -> None:
    """The specification's duplicate check is in scope, and synchronous at 100 at once."""
    found = assess(records=6_000, latency=0.05, at_once=100)
    assert str(found) == found.words == EXAMPLE
    assert found.verdict == "sync"
    assert found.in_scope
    assert found.sequential_seconds == 300.0
    assert found.concurrent_seconds == pytest.approx(60 * 0.05 / 0.97)
    assert found.reasons == (
        "6,000 records, at least 1,000",
        "6,000 × 50 ms is 300 s one by one, above 5 s",
        "3.1 s is under 5 s",
    )


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"records": 1_000}, "1,000 records, at least 1,000"),
        ({"records": 10, "latency": 0.501}, "10 × 501 ms is 5.01 s one by one, above 5 s"),
        ({"calls": 101, "latency": 0.05}, "101 × 50 ms is 5.1 s one by one, above 5 s"),
        ({"timeouts_seen": 1}, "a 502, a 504 or a timeout was seen once"),
        ({"timeouts_seen": 3}, "a 502, a 504 or a timeout was seen 3 times"),
        ({"users_say_it_hangs": True}, "users say that it hangs"),
    ],
)
def test_any_one_of_the_four_conditions_is_enough(facts: dict[str, Any], reason: str) -> None:
    """Each condition alone puts an operation in scope, and is its first reason."""
    found = assess(**facts)
    assert found.in_scope
    assert found.reasons[0] == reason
    assert len(found.reasons) == 2


@pytest.mark.parametrize(
    "facts",
    [
        {"records": 999},
        {"records": 999, "latency": 0.005},
        {"records": 100, "latency": 0.05},
        {"latency": 5.0},
    ],
)
def test_none_of_the_four_is_out_of_scope(facts: dict[str, Any]) -> None:
    """At the edge of every threshold (999 records, exactly 5 s) an operation stays out, and synchronous."""
    found = assess(**facts)
    assert not found.in_scope
    assert found.verdict == "sync"
    assert found.reasons == ("none of the four conditions is met",)
    assert str(found).endswith(": out of scope, stay synchronous")


@pytest.mark.parametrize(
    ("latency", "verdict"),
    [(4.99, "sync"), (5.0, "sync"), (5.01, "wait"), (10.0, "wait"), (10.01, "job"), (300.0, "job")],
)
def test_the_verdict_of_one_call_that_cannot_be_split(latency: float, verdict: str) -> None:
    """Synchronous below 5 s, waited for up to 10 s, a job above: no concurrency helps a single call."""
    assert assess(calls=1, latency=latency).verdict == verdict


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(4.999, "sync"), (5.0, "wait"), (10.0, "wait"), (10.001, "job")]
)
def test_the_limits_of_the_verdict(seconds: float, verdict: str) -> None:
    """In scope by another reason: exactly 5 s waits already, and exactly 10 s waits still."""
    assert assess(calls=1, latency=seconds, users_say_it_hangs=True).verdict == verdict


def test_concurrency_decides_between_the_verdicts() -> None:
    """The same batch is a job, waited for or synchronous, by how much of it runs at once."""
    verdicts = [assess(records=6_000, latency=0.05, at_once=n).verdict for n in (1, 20, 50, 63)]
    assert verdicts == ["job", "job", "wait", "sync"]


def test_timeouts_make_a_job_of_it_however_fast_it_should_be() -> None:
    """What has been cut off is a job, also where the arithmetic says 3.1 s."""
    found = assess(records=6_000, latency=0.05, at_once=100, timeouts_seen=2)
    assert found.verdict == "job"
    assert str(found).endswith(": in scope, make it a job, since timeouts were seen")


def test_nothing_known_says_so() -> None:
    """With no figure at all nothing warrants a job, and the words say that nothing is measured."""
    found = assess()
    assert (found.verdict, found.in_scope, found.concurrent_seconds) == ("sync", False, None)
    assert str(found) == "nothing is measured yet: out of scope until something is, stay synchronous"
    assert found.reasons == ("nothing is known yet",)


def test_in_scope_without_a_duration_waits() -> None:
    """In scope, but nothing tells how long it takes: `Prefer: wait` serves the short and the long."""
    found = assess(records=5_000)
    assert found.verdict == "wait"
    assert found.reasons[-1] == "how long it takes is unknown"
    assert str(found).startswith("5,000 records of unknown latency: in scope, answer in place")


def test_a_hang_that_the_numbers_do_not_explain() -> None:
    """Users say that it hangs and the numbers say 0.5 s: the words ask to measure."""
    found = assess(records=10, latency=0.05, users_say_it_hangs=True)
    assert found.verdict == "sync"
    assert str(found).endswith("stay synchronous, and measure why users say that it hangs")


def test_the_words_say_which_concurrency_would_do() -> None:
    """Where more at once would make it synchronous, the words say how many; where nothing would, that."""
    assert str(assess(records=6_000, latency=0.05, at_once=20)).endswith(
        "63 at once would bring it under 5 s"
    )
    assert str(assess(latency=12)).endswith("; no concurrency up to 500 brings it under 5 s")
    assert str(assess(records=10**6, latency=0.1)).endswith("; no concurrency up to 500 brings it under 5 s")


def test_calls_need_not_be_one_a_record() -> None:
    """Four calls a record take four times as long; a hundred records a call a hundredth."""
    assert assess(records=6_000, calls=24_000, latency=0.05).sequential_seconds == 1_200.0
    assert assess(records=6_000, calls=60, latency=0.05).sequential_seconds == 3.0


def test_thresholds_can_be_changed() -> None:
    """Own thresholds and an own efficiency replace the specification's."""
    strict = Condition(records=10, sync_below=0.5, job_above=1.0, at_once=10, efficiency=0.5)
    found = strict.assess(records=50, latency=0.1)
    assert found.concurrent_seconds == pytest.approx(1.0)
    assert found.verdict == "wait"
    assert found.reasons[0] == "50 records, at least 10"
    assert "above 500 ms" in found.reasons[1]


def test_an_assessment_is_json_in_camel_case() -> None:
    """An endpoint can answer it as it is; it decodes to the same."""
    found = assess(records=6_000, latency=0.05, history=History())
    body = msgspec.json.decode(msgspec.json.encode(found))
    assert body["verdict"] == "job"
    assert body["inScope"] is True
    assert body["atOnceForSync"] == 63
    assert body["measured"]["durationSeconds"] is None
    assert msgspec.convert(body, Assessment) == found


@pytest.mark.parametrize("name", ["records", "calls", "at_once", "timeouts_seen"])
@pytest.mark.parametrize(
    "value", [-1, 1.5, math.nan, math.inf, True, "6000", 10**13, 10**5_000], ids=type_and_size
)
def test_counts_that_are_none(name: str, value: Any) -> None:
    """A count that is negative, broken, a bool, a text or absurd is refused by name, with what to give."""
    with pytest.raises(ConfigurationError, match=rf"^{name} is .+: give a whole number from [01] to 1,000,"):
        assess(**{name: value})


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, -math.inf, False, "0.05", b"1", 1e300])
def test_a_latency_that_is_none(value: Any) -> None:
    """A latency that is no number of seconds is refused with its value; the error is a ValueError."""
    with pytest.raises(ValueError, match=r"^latency is .+: give seconds, a number from 0 to"):
        assess(records=1, latency=value)


def test_the_value_is_named() -> None:
    """The message carries the value itself, cut when it is long."""
    with pytest.raises(ConfigurationError, match=r"^at_once is 0: give a whole number from 1 to"):
        assess(at_once=0)
    with pytest.raises(ConfigurationError, match=r"^users_say_it_hangs is 'yes': give True or False"):
        assess(users_say_it_hangs="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as caught:
        assess(records="9" * 10_000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"records": 0}, "records is 0"),
        ({"at_once": 0}, "at_once is 0"),
        ({"sync_below": 0.0}, "sync_below is 0.0 and job_above is 10.0: give 0 < sync_below <= job_above"),
        ({"sync_below": 11}, "sync_below is 11 and job_above is 10.0"),
        ({"job_above": math.nan}, "job_above is nan"),
        ({"efficiency": 0}, "efficiency is 0: give a share above 0, up to 1"),
        ({"efficiency": 1.01}, "efficiency is 1.01"),
        ({"efficiency": True}, "efficiency is True"),
    ],
)
def test_thresholds_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    """A threshold is checked when the condition is made."""
    with pytest.raises(ConfigurationError) as caught:
        Condition(**options)
    assert str(caught.value).startswith(message)


counts = st.integers(0, 10**7)
latencies = st.floats(0, 60)


@given(records=st.none() | counts, latency=st.none() | latencies, at_once=st.none() | st.integers(1, 10**4))
def test_every_sane_input_gets_words(records: int | None, latency: float | None, at_once: int | None) -> None:
    """No sane input raises; there are always words and reasons, and the JSON is valid."""
    found = assess(records=records, latency=latency, at_once=at_once)
    assert found.words
    assert found.reasons
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(found)), Assessment) == found


@given(calls=counts, latency=latencies, at_once=st.integers(1, 10**4))
def test_concurrency_never_makes_a_batch_slower_than_one_by_one(
    calls: int, latency: float, at_once: int
) -> None:
    """The estimate lies between a single call and the whole batch one by one."""
    condition = Condition()
    estimate = condition.estimate(calls, latency, at_once)
    assert estimate <= condition.estimate(calls, latency, 1) == calls * latency
    assert estimate >= latency or calls == 0


@given(calls=st.integers(1, 10**6), latency=latencies)
@example(calls=7_752, latency=0.0212719298245614)  # where the division is a rounding error too low
def test_the_smallest_concurrency_is_the_smallest(calls: int, latency: float) -> None:
    """`at_once_for_sync` brings the batch under 5 s and one fewer does not; None means that nothing does."""
    condition = Condition()
    needed = condition.at_once_for_sync(calls, latency)
    if needed is None:
        assert condition.estimate(calls, latency, calls) >= 5.0
    else:
        assert condition.estimate(calls, latency, needed) < 5.0
        assert needed == 1 or condition.estimate(calls, latency, needed - 1) >= 5.0
