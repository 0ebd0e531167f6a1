"""The invariants, checked against a history when all is over. Pure, and itself tested (`test_checker.py`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.faults.history import Answer, Entry, Fault

TERMINAL = ("SUCCESS", "FAILED")
AFTER_PAUSE = 1.0
"""How long a process that was paused may take to notice, in seconds."""


def violations(
    answers: Sequence[Answer], faults: Sequence[Fault], entries: Sequence[Entry], *, lease: float
) -> list[str]:
    """Return what was promised and not kept, one line each.

    Args:
        answers: what clients were told, in the order of time.
        faults: what was done to whom.
        entries: what the workers wrote, in the order of time.
        lease: how long a lease lasts, in seconds.
    """
    return [
        *overlaps(faults, entries, lease=lease),
        *executed_twice(entries),
        *changed_outcomes(answers),
        *went_back(answers),
        *unnamed(answers, entries),
        *without_end(answers),
        *late_losses(answers, faults, entries, lease=lease),
        *rude_refusals(answers),
    ]


def overlaps(faults: Sequence[Fault], entries: Sequence[Entry], *, lease: float) -> list[str]:
    """Two runs of a key at work at once, other than while one was paused or Redis had lost its memory."""
    found = []
    spans: dict[str, dict[str, list[Entry]]] = defaultdict(dict)
    for entry in entries:
        spans[entry.key].setdefault(entry.run, []).append(entry)
    for key, runs in spans.items():
        begun = [(steps[0].t, run) for run, steps in runs.items()]
        for run, steps in runs.items():
            for step in steps:
                # Whoever began after this run had its key when this step was done.
                later = [(t, other) for t, other in begun if steps[0].t < t < step.t and other != run]
                if later and not _excused(step, faults, lease):
                    since, other = later[0]
                    found.append(
                        f"overlap: run {run} of {key} did {step.what} {step.number} "
                        f"{step.t - since:.3f} s after run {other} had started"
                    )
    return found


def _excused(step: Entry, faults: Sequence[Fault], lease: float) -> bool:
    for fault in faults:
        if (
            fault.what == "pause"
            and fault.pid == step.pid
            and fault.at <= step.t <= fault.until + AFTER_PAUSE
        ):
            return True
        if fault.what == "memory lost" and fault.at <= step.t <= fault.until + lease:
            return True
    return False


def executed_twice(entries: Sequence[Entry]) -> list[str]:
    """A run that was started more than once, by whomever."""
    starts = Counter(entry.run for entry in entries if entry.what == "start")
    return [f"executed {count} times: run {run}" for run, count in starts.items() if count > 1]


def changed_outcomes(answers: Sequence[Answer]) -> list[str]:
    """A run whose terminal picture was another one later."""
    outcomes: dict[str, tuple[Answer, tuple[object, ...]]] = {}
    found = []
    for answer in sorted(answers, key=lambda a: a.ended):
        if answer.run is None or answer.state is None:
            continue
        seen = (answer.state, answer.version, answer.code)
        if answer.run in outcomes:
            first, outcome = outcomes[answer.run]
            if answer.began >= first.ended and seen != outcome:
                found.append(f"outcome changed: run {answer.run} was {outcome} and is {seen}")
        elif answer.state in TERMINAL:
            outcomes[answer.run] = answer, seen
    return found


def went_back(answers: Sequence[Answer]) -> list[str]:
    """A client that was shown an older version, or an older run, after a newer one."""
    found, last, left = [], dict[tuple[str, str], Answer](), dict[tuple[str, str], set[str]]()
    for answer in sorted(answers, key=lambda a: a.began):
        if answer.run is None or answer.state is None or answer.verb == "list":
            continue
        who = (answer.client, answer.key)
        before = last.get(who)
        if before is not None and before.run == answer.run and answer.version < before.version:
            found.append(
                f"went back: {answer.client} saw version {before.version} and then {answer.version} of run "
                f"{answer.run}"
            )
        if answer.run in left.setdefault(who, set()):
            found.append(f"came back: {answer.client} saw run {answer.run} of {answer.key} after a later one")
        if before is not None and before.run != answer.run:
            left[who].add(str(before.run))
        last[who] = answer
    return found


def unnamed(answers: Sequence[Answer], entries: Sequence[Entry]) -> list[str]:
    """An accepted trigger whose run nobody has seen, or an execution that no trigger was told of."""
    found = []
    seen = {a.run for a in answers if a.verb == "status"} | {entry.run for entry in entries}
    accepted = [a for a in answers if a.verb == "trigger" and a.status in (200, 202)]
    found += [f"no such run: {a.run}, named to {a.client} for {a.key}" for a in accepted if a.run not in seen]
    told = {a.run for a in accepted}
    # Who was told nothing at all may have started one; who was refused may not.
    untold = {a.key for a in answers if a.verb == "trigger" and a.status == 0}
    for entry in entries:
        if entry.what == "start" and entry.run not in told and entry.key not in untold:
            found.append(f"nobody asked for it: run {entry.run} of {entry.key} was started")
    return found


def without_end(answers: Sequence[Answer]) -> list[str]:
    """An accepted run that was last seen RUNNING, though its key was looked at after everything was over."""
    last: dict[str, Answer] = {}
    for answer in sorted(answers, key=lambda a: a.began):
        if answer.verb == "status" and answer.status == 200:
            last[answer.key] = answer
    return [
        f"no end: run {answer.run} of {key} is still RUNNING"
        for key, answer in last.items()
        if answer.state == "RUNNING"
    ]


def late_losses(
    answers: Sequence[Answer], faults: Sequence[Fault], entries: Sequence[Entry], *, lease: float
) -> list[str]:
    """A run that outlived its worker's death by more than its lease and a second in the eyes of clients."""
    found = []
    ended = {entry.run for entry in entries if entry.what == "end"}
    for fault in faults:
        if fault.what != "kill":
            continue
        orphans = {
            e.run: e.key for e in entries if e.pid == fault.pid and e.run not in ended and e.t <= fault.at
        }
        for run, key in orphans.items():
            limit = fault.at + lease + 1.0
            if any(_hides(other, fault.at, limit) for other in faults if other is not fault):
                continue  # nobody could have seen it in time
            late = [a for a in answers if a.run == run and a.state == "RUNNING" and a.began > limit]
            found += [
                f"lost too late: run {run} of {key} is RUNNING {answer.began - fault.at:.2f} s after the kill"
                for answer in late[:1]
            ]
    return found


def _hides(fault: Fault, start: float, end: float) -> bool:
    return fault.worker == -1 and fault.at < end and fault.until > start


def rude_refusals(answers: Sequence[Answer]) -> list[str]:
    """An error other than a 503 that says when to try again."""
    return [
        f"rude: {a.verb} of {a.key} at worker {a.worker} gave {a.status} {a.code}: {a.body[:200]}"
        for a in answers
        if a.status >= 400 and not (a.status == 503 and a.retry_after and int(a.retry_after) >= 1)
    ]
