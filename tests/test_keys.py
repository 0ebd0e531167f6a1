"""Keys: what may be part of one, and that different parts never give the same key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.errors import ConfigurationError, InvalidKeyError
from asynctask.keys import MAX_PART, Key, make_key, overlap, parameters

PATH = "imports/{a}/of/{b}"
NAMES = ("a", "b")
fit = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


@given(first=st.tuples(fit, fit), second=st.tuples(fit, fit))
def test_different_parameters_never_share_a_key(first: tuple[str, str], second: tuple[str, str]) -> None:
    """rq#2137, quirrel#134, django-rq#202: ':', '/', '%' and unicode in parts collide with nothing."""
    keys = [make_key(PATH, NAMES, {"a": a, "b": b}, "") for a, b in (first, second)]
    assert (keys[0] == keys[1]) == (first == second)
    assert keys[0].path.count("/") == PATH.count("/")
    assert keys[0].path.isascii()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a/b", "c"), ("a", "b/c")),
        (("a:b", "c"), ("a", "b:c")),
        (("%2F", "c"), ("/", "c")),
        (("{b}", "c"), ("c", "c")),
        (("é", "c"), ("e\u0301", "c")),
    ],
)
def test_pairs_that_a_plain_join_would_confuse(first: tuple[str, str], second: tuple[str, str]) -> None:
    """Each pair is one key where parts are joined or filled in without encoding."""
    paths = {make_key(PATH, NAMES, {"a": a, "b": b}, "").path for a, b in (first, second)}
    assert len(paths) == 2


def test_the_tenant_is_never_joined_to_the_path() -> None:
    """("x:y", tenant "z") and ("x", tenant "y:z") are two keys."""
    job = "files/{a}"
    keys = {make_key(job, ("a",), {"a": a}, tenant) for a, tenant in (("x:y", "z"), ("x", "y:z"))}
    assert keys == {Key(job, "files/x%3Ay", "z"), Key(job, "files/x", "y:z")}


@pytest.mark.parametrize("value", [1, True, 1.0, None, b"1", ["1"]])
def test_only_text_is_part_of_a_key(value: object) -> None:
    """1, True and 1.0 are one dict key, and None is a default: none of them gets in."""
    with pytest.raises(InvalidKeyError, match=f"not {type(value).__name__}"):
        make_key("job", (), None, value)  # type: ignore[arg-type]
    with pytest.raises(InvalidKeyError, match=r"path parameter 'a' must be text"):
        make_key("job/{a}", ("a",), {"a": value}, "")  # type: ignore[dict-item]


def test_a_subclass_of_str_is_reduced_to_its_text() -> None:
    """A class whose hash or equality is its own cannot make two runs of one key."""

    class Odd(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return False

        __hash__ = str.__hash__

    key = make_key("job/{a}", ("a",), {"a": Odd("x")}, Odd("t"))
    assert key == Key("job/{a}", "job/x", "t")
    assert type(key.tenant) is str


def test_parts_that_are_too_long_are_refused() -> None:
    """rq#2137: too long is 422, not a truncated key."""
    assert make_key("job", (), None, "t" * MAX_PART).tenant == "t" * MAX_PART
    with pytest.raises(InvalidKeyError, match=str(MAX_PART + 1)) as caught:
        make_key("job", (), None, "t" * (MAX_PART + 1))
    assert caught.value.status == 422


@pytest.mark.parametrize("character", ["\x00", "\n", "\x1b", "\x7f", "\x85", "\ud800"])
def test_control_characters_and_lone_surrogates_are_refused(character: str) -> None:
    """They would forge lines of a log, or could not be written down at all."""
    with pytest.raises(InvalidKeyError, match="cannot be part of a key"):
        make_key("job", (), None, f"a{character}b")


@pytest.mark.parametrize(
    "params",
    [None, {}, {"a": "1"}, {"a": "1", "b": "2", "c": "3"}, {"a": "1", "x": "2"}, {"a": "", "b": "2"}],
)
def test_the_parameters_must_be_those_of_the_path(params: dict[str, str] | None) -> None:
    """Missing, unknown and empty ones are refused, and the message says which there are."""
    with pytest.raises(InvalidKeyError, match=r"path parameter"):
        make_key(PATH, NAMES, params, "")


def test_a_job_without_parameters_takes_none() -> None:
    """Parameters that nobody declared are an error, not ignored."""
    assert make_key("job", (), {}, "") == make_key("job", (), None, "") == Key("job", "job", "")
    with pytest.raises(InvalidKeyError, match="given \\['a'\\]"):
        make_key("job", (), {"a": "1"}, "")


def test_parameters_are_read_from_the_path_in_order() -> None:
    """The names between braces, and nothing else."""
    assert parameters("duplicates/check") == ()
    assert parameters("a.b/{x}/c~d/{y_2}") == ("x", "y_2")


@pytest.mark.parametrize(
    "path",
    [
        *("", "/a", "a/", "a//b", "a b", "a?b", "a#b", "é", "a/..", ".", "{a", "a}", "{1}", "{a}b", "{a-b}"),
        *("{a}/{a}", "a%20b", "a\n", None, 7),
    ],
)
def test_unfit_job_paths_are_refused(path: object) -> None:
    """What could not be a route, or would be another one after a client resolved it."""
    with pytest.raises(ConfigurationError, match=r"path"):
        parameters(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a/{x}", "a/b", True),
        ("{x}/a", "b/{y}", True),
        ("a/{x}", "a", False),
        ("a/{x}/c", "a/b/d", False),
    ],
)
def test_overlap(a: str, b: str, expected: bool) -> None:
    """Two paths overlap when one request could mean both."""
    assert overlap(a, b) is overlap(b, a) is expected
