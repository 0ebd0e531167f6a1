"""The registry: which job stands behind a path. One belongs to each `Jobs`; there is no global one."""

from __future__ import annotations

from collections.abc import Mapping

from asynctask.errors import ConfigurationError, UnknownJobError
from asynctask.job import Job
from asynctask.keys import overlap

_SUFFIXES = {"POST": ("", "/cancel"), "GET": ("/status", "/events")}
"""What is appended to a job's path on the wire; two jobs must not meet there."""


class Registry:
    """The jobs of an application by path."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._frozen = False

    @property
    def jobs(self) -> Mapping[str, Job]:
        """The jobs by path, in the order of their registration."""
        return self._jobs

    def freeze(self) -> None:
        """Refuse further registrations, since what was made from the registry would miss them."""
        self._frozen = True

    def find(self, path: str) -> Job:
        """Return the job registered under `path`; raises `UnknownJobError`, which names those there are."""
        job = self._jobs.get(path)
        if job is None:
            known = ", ".join(map(repr, sorted(self._jobs))) or "none"
            raise UnknownJobError(f"no job is registered as {path!r}; registered: {known}")
        return job

    def add(self, job: Job) -> None:
        """Register a job.

        Raises:
            ConfigurationError: the registry is frozen, or a request could mean this job or another.
        """
        if self._frozen:
            raise ConfigurationError(
                f"job {job.path!r} is registered after routes(jobs) was called, so it would have no route: "
                "import the modules that register jobs first"
            )
        for other in self._jobs.values():
            for suffixes in _SUFFIXES.values():
                for mine in suffixes:
                    if any(overlap(job.path + mine, other.path + theirs) for theirs in suffixes):
                        raise ConfigurationError(
                            f"job {job.path!r} and job {other.path!r} would both answer "
                            f"{job.path + mine!r}: give one of them another path"
                        )
        self._jobs[job.path] = job
