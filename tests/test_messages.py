"""Messages: never empty, never long, nothing in them that should not leave the server."""

from __future__ import annotations

from typing import Never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.errors import JobError
from asynctask.messages import MAX_LEAVES, MAX_MESSAGE, clean, describe, text_of


class Mute(Exception):
    """An exception that cannot be printed."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://app:hunter2@db/shop", "postgres://***@db/shop"),
        ("at https://token-abc@git.example/x, http://a:b@c", "at https://***@git.example/x, http://***@c"),
        ("redis://:p@ss@cache:6379/0", "redis://***@cache:6379/0"),
        ("redis://app:p/ss?w#rd@cache", "redis://***@cache"),
        ("GET https://api/x?api_key=abc&page=2 failed", "GET https://api/x?api_key=***&page=2 failed"),
        ("sent Authorization: Bearer eyJhbGciOi.x-y", "sent Authorization: Bearer ***"),
        ("sent Basic YWRtaW46aHVudGVyMg==", "sent Basic ***"),
        ("{'db_password': 'hunter 2', 'port': 1}", "{'db_password': ***, 'port': 1}"),
        ('{"accessToken": "abc"}', '{"accessToken": ***}'),
        ("PWD=hunter2;AccountKey=q==;x=1", "PWD=***;AccountKey=***;x=1"),
        ("X-Amz-Signature=0a1b&client_secret=s", "X-Amz-Signature=***&client_secret=***"),
    ],
)
def test_credentials_are_redacted(text: str, expected: str) -> None:
    """hashview#224: neither in URLs nor as name and value."""
    assert clean(text) == expected
    assert describe(ValueError(text)) == expected
    assert describe(JobError(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "see http://host:8080/users/@me",
        "mail to a@b.example, or https://x.example/?q=a@b.example",
        "design: blue; author: me; tokens were short",
        "回填中 50%",
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    """Redaction does not eat an ordinary message."""
    assert clean(text) == text


@given(st.text(), st.integers(1, 5000))
def test_cleaned_text_is_short_printable_and_can_be_encoded(text: str, repeat: int) -> None:
    """No control characters, no lone surrogates, no more than the limit, one line."""
    shown = clean(text * repeat)
    assert len(shown) <= MAX_MESSAGE
    shown.encode()
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert shown == shown.strip()


def test_control_characters_are_dropped_and_space_is_joined() -> None:
    """No forged log line, no terminal escape, no text that runs backwards."""
    assert clean("a\x00b\r\nc \t d\x1b[31m\u202ee\ud800f") == "ab c d[31mef"


def test_a_cut_message_says_so() -> None:
    """The end of a long text is an ellipsis, and what is beyond a multiple of the limit is never scanned."""
    assert clean("x" * MAX_MESSAGE) == "x" * MAX_MESSAGE
    assert clean("x" * (MAX_MESSAGE + 1)) == "x" * (MAX_MESSAGE - 1) + "…"
    assert clean(" " * 100_000 + "x").endswith("…")


def test_a_credential_is_redacted_before_the_text_is_cut() -> None:
    """A secret across the cut does not show its first half."""
    text = "x" * (MAX_MESSAGE - 12) + " redis://app:hunter2hunter2@cache"
    assert "hunter" not in clean(text)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("no such file"), "no such file"),
        (ValueError(), "ValueError"),
        (ValueError(" \n\x00"), "ValueError"),
        (KeyError("x"), "'x'"),
        (AssertionError(), "AssertionError"),
        (SystemExit(3), "3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (Mute(RuntimeError("secret")), "Mute"),
        (Mute(SystemExit()), "Mute"),
        (Mute(KeyboardInterrupt()), "Mute"),
    ],
)
def test_an_exception_is_its_text_or_else_its_class(error: BaseException, expected: str) -> None:
    """Never empty, also where the text is blank or raises."""
    assert describe(error) == expected


def test_a_group_names_its_leaves() -> None:
    """statgpt-backend#453: not "2 sub-exceptions", but what they are, however deeply they are nested."""
    group = ExceptionGroup("x", [ValueError("bad row"), ExceptionGroup("y", [KeyError("k"), OSError()])])
    assert describe(group) == "3 errors: ValueError: bad row; KeyError: 'k'; OSError"
    assert describe(ExceptionGroup("x", [ValueError("bad row")])) == "ValueError: bad row"
    assert describe(BaseExceptionGroup("x", [SystemExit(3)])) == "SystemExit: 3"


def test_a_group_around_one_job_error_is_that_error() -> None:
    """A task group wraps what a child raises; the visitor reads the message that was written for him."""
    assert describe(ExceptionGroup("x", [ExceptionGroup("y", [JobError("no credit left")])])) == (
        "no credit left"
    )


def test_a_group_of_many_is_counted() -> None:
    """The first few are named, the others counted, credentials redacted in each."""
    group = ExceptionGroup("x", [ValueError(f"http://u:p@h/{n}") for n in range(100)])
    assert describe(group).startswith("100 errors: ValueError: http://***@h/0; ")
    assert describe(group).endswith(f"; and {100 - MAX_LEAVES} more")


def test_a_group_that_cannot_be_looked_at_is_its_class() -> None:
    """An exception class of a stranger's may raise wherever it is touched."""

    class Shut(ExceptionGroup[ValueError]):
        @property
        def exceptions(self) -> Never:
            raise SystemExit

    assert describe(Shut("x", [ValueError()])) == "Shut"


def test_text_of_what_cannot_be_printed_is_empty() -> None:
    """Used for whatever else a job passes as a text."""
    assert text_of(404) == "404"
    assert text_of("token=abc") == "token=***"
    assert text_of(Mute(KeyboardInterrupt())) == ""
