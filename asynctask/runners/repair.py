"""Putting right what a body did to the task that it ran in.

A body shares its task with the code that settles its run afterwards. Two things that it may leave behind
would end the whole task group, and with it every other run, however well exceptions are caught:

- a cancel scope or task group that it entered and never left; an async generator with one inside, left by
  `break`, is enough (PEP 789);
- a cancellation that it asked of its own task, by `asyncio.current_task().cancel()`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio


def leave_open_scopes(scope: anyio.CancelScope) -> None:
    """Leave what the body entered within `scope` and did not leave; cancels the tasks in there.

    The innermost scope of a task is not to be had by anyio's public names. Without it, as with an anyio that
    keeps it elsewhere, nothing is repaired. Trio repairs scopes by itself, but not nurseries.
    """
    with suppress(Exception):
        if (task := _asyncio_task()) is None:
            _abandon_nurseries()
            return
        from anyio._backends._asyncio import _task_states

        current = _task_states[task].cancel_scope
        left: list[anyio.CancelScope] = []
        while current is not scope:
            left.append(current)  # type: ignore[arg-type]
            current = current._parent_scope  # type: ignore[union-attr]
        for inner in left:
            inner.cancel()
            inner.__exit__(None, None, None)
        scope.__exit__(None, None, None)


async def absorb_cancellations() -> None:
    """Let cancellations that nobody but the body itself asked for come to nothing."""
    task = _asyncio_task()
    if task is None or not task.cancelling():
        return
    while task.cancelling():
        task.uncancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)  # where one that was not delivered yet arrives


def _asyncio_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # another event loop is running
        return None


def _abandon_nurseries() -> None:
    import trio

    for nursery in trio.lowlevel.current_task().child_nurseries:
        nursery.cancel_scope.cancel()
    trio.lowlevel.current_task()._child_nurseries.clear()
