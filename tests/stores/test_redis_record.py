"""Names and pictures of records: pure functions, tested without a server."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.errors import ConfigurationError
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import MESSAGES, Code, Status, decode, encode
from asynctask.stores.redis.record import Naming, picture

TEXTS = st.text(max_size=12) | st.sampled_from(["", ":", "{", "}", "{a}", "%", "/", "t:", "a:b"])
KEYS = st.builds(Key, TEXTS, TEXTS, TEXTS)
TAG = re.compile(r"^[^{]*\{([^}]+)\}")
"""What a cluster hashes of a name: what is between the first brace and the next closing one."""


@given(KEYS, KEYS)
def test_different_keys_have_different_names(one: Key, other: Key) -> None:
    """No text of a tenant or a parameter forms another's key: names are equal only where keys are."""
    naming = Naming("app")
    assert (naming.of(one).record == naming.of(other).record) == (one == other)
    assert (naming.of(one).listing == naming.of(other).listing) == (one.tenant == other.tenant)


@given(KEYS)
def test_names_of_a_tenant_share_a_hash_tag(key: Key) -> None:
    """Record and index lie in one slot, and the tag is the tenant alone, so that tenants spread."""
    names = Naming("app").of(key)
    tags = {match[1] for name in names if (match := TAG.match(name))}
    assert len(tags) == 1
    assert TAG.match(Naming("app").index(key.tenant))[1] in tags  # type: ignore[index]
    assert names.record.isascii()
    assert not set(names.record.removeprefix(names.listing)) & set("{} *?[\n")


@pytest.mark.parametrize("prefix", ["", "a{b}", "a b", "ü", "x" * 101, None, 7])
def test_unfit_prefix(prefix: object) -> None:
    """A prefix that could break the hash tag, or is no text, is refused when the store is made."""
    with pytest.raises(ConfigurationError, match="prefix="):
        Naming(prefix)  # type: ignore[arg-type]


def record(
    state: bytes, run: Run, *, bump: int = 0, lost: int | None = None, cancel: bool = False
) -> list[object]:
    """What a script gives of a run's record."""
    return [state, encode(run.snapshot()), b"%d" % bump, lost, b"1" if cancel else None, 0]


def test_plain_record_is_what_was_published() -> None:
    """Without changes by others, readers see the very snapshot of the holder."""
    run = Run(Key("a", "a", "t"))
    run.advance(3)
    assert picture(encode(run.snapshot())) == picture(record(b"R", run)) == run.snapshot()


def test_cancellation_is_laid_over() -> None:
    """A cancellation that the holder has not heard of yet is visible, in a version of its own."""
    run = Run(Key("a", "a", "t"))
    seen = picture(record(b"R", run, bump=1, cancel=True))
    assert (seen.cancel_requested, seen.version) == (True, run.snapshot().version + 1)


def test_lost_run_is_the_same_for_every_reader() -> None:
    """How a lost run ended follows from its record alone: FAILED, worker_lost, the progress kept."""
    run = Run(Key("a", "a", "t"))
    run.total = 10
    run.advance(4)
    published = run.snapshot()
    lost = record(b"L", run, lost=4_000_000_000_000)
    seen = picture(lost)
    assert picture(lost) == seen == decode(encode(seen))
    assert (seen.status, seen.error_code) == (Status.FAILED, "worker_lost")
    assert seen.error_message == MESSAGES[Code.WORKER_LOST]
    assert (seen.version, seen.processed, seen.percent) == (published.version + 1, 4, 40)
    assert seen.finished_at == seen.updated_at == "2096-10-02T07:06:40.000Z"
    assert seen.duration_ms is not None
    assert seen.duration_ms > 0
    assert seen.poll_after_ms is None


def test_lost_run_does_not_end_before_it_began() -> None:
    """Where the server's clock is behind the worker's, a run's end is moved, not its start."""
    run = Run(Key("a", "a", "t"))
    seen = picture(record(b"L", run, lost=1_000))
    assert seen.finished_at == seen.started_at
    assert seen.duration_ms == 0
