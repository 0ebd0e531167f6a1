"""MemoryStore against a model, under random claims, settles, reads, expiries and evictions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from asynctask import MemoryStore, Status
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.testing import ManualClock

T = TypeVar("T")

CAP, TTL = 3, 10.0
KEYS = [Key("job", path, tenant) for path in ("job/a", "job/b", "job/c") for tenant in ("", "acme")]
keys = st.sampled_from(KEYS)


def step(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never awaits; it would fail here if it did."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise AssertionError("a step of the store gave way to other tasks")


class StoreAndModel(RuleBasedStateMachine):
    """Two ordered dicts say what a store with these bounds must show."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = MemoryStore(cap=CAP, ttl=TTL, timer=self.clock)
        self.running: dict[Key, Run] = {}
        self.finished: OrderedDict[Key, tuple[str, float]] = OrderedDict()  # least recently used first
        self.refused: list[Run] = []
        self.evicted = 0
        self.expired = 0

    def purge(self) -> None:
        """Drop from the model what is too old."""
        for key, (_, until) in list(self.finished.items()):
            if self.clock() >= until:
                del self.finished[key]
                self.expired += 1

    @rule(key=keys)
    def claim(self, key: Key) -> None:
        """Starts where nothing runs, else joins."""
        run = Run(key)
        answer = step(self.store.claim(run))
        assert answer.ours == (key not in self.running)
        holder = self.running.setdefault(key, run)
        assert answer.snapshot.run_id == holder.run_id
        if not answer.ours:
            self.refused.append(run)

    @rule(key=keys)
    def claim_twice(self, key: Key) -> None:
        """A claim whose answer was lost gives the same answer when it is repeated."""
        holder = self.running.get(key)
        if holder is not None:
            assert step(self.store.claim(holder)).ours

    @precondition(lambda self: self.running)
    @rule(data=st.data(), status=st.sampled_from([Status.SUCCESS, Status.FAILED]))
    def settle(self, data: st.DataObject, status: Any) -> None:
        """Makes room for the outcome, at the cost of what was least recently used."""
        key = data.draw(st.sampled_from(sorted(self.running)))
        run = self.running.pop(key)
        run.finish(status)
        assert step(self.store.settle(run))
        self.purge()
        self.finished.pop(key, None)
        while len(self.finished) >= CAP:
            self.finished.popitem(last=False)
            self.evicted += 1
        self.finished[key] = (run.run_id, self.clock() + TTL)
        self.refused.append(run)

    @precondition(lambda self: self.refused)
    @rule(data=st.data())
    def settle_what_does_not_hold_its_key(self, data: st.DataObject) -> None:
        """A run that joined, or is over, changes nothing."""
        run = data.draw(st.sampled_from(self.refused))
        run.finish(Status.FAILED)
        assert not step(self.store.settle(run))

    @rule(key=keys)
    def read(self, key: Key) -> None:
        """The running run, else the finished one, else nothing; reading keeps an entry longer."""
        self.purge()
        seen = step(self.store.read(key))
        if key in self.running:
            assert seen is self.running[key].snapshot()
        elif key in self.finished:
            self.finished.move_to_end(key)
            assert seen is not None
            assert seen.run_id == self.finished[key][0]
            assert seen.status.terminal
        else:
            assert seen is None

    @rule(seconds=st.sampled_from([0.0, 0.5, 4.0, 9.5, 10.0, 30.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.advance(seconds)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), n=st.integers(0, 5))
    def advance(self, data: st.DataObject, n: int) -> None:
        """Progress is seen at once, and touches nothing else."""
        run = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        run.advance(n)
        peeked = self.store.peek(run.claim_key)
        assert peeked is run.snapshot()

    @rule(tenant=st.sampled_from(["", "acme"]))
    def list(self, tenant: str) -> None:
        """All of a tenant's, each key once, running ones first; it keeps nothing longer."""
        self.purge()
        listed = step(self.store.list(tenant))
        shown = {Key("job", s.key, tenant): s.run_id for s in listed}
        expected = {key: run_id for key, (run_id, _) in self.finished.items()}
        expected |= {key: run.run_id for key, run in self.running.items()}
        assert shown == {key: run_id for key, run_id in expected.items() if key.tenant == tenant}
        assert len(shown) == len(listed)
        over = [s.status.terminal for s in listed]
        assert over == sorted(over)

    @invariant()
    def counts(self) -> None:
        """Bounds and counters are those of the model."""
        self.purge()
        assert self.store.running == len(self.running)
        assert self.store.kept == len(self.finished) <= CAP
        assert self.store.evicted == self.evicted
        assert self.store.expired == self.expired


TestStoreAndModel = StoreAndModel.TestCase
TestStoreAndModel.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
