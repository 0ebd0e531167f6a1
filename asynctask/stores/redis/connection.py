"""Reaching Redis: the clients, and whether the server is fit. Imports `redis`, alone.

Two clients reach the same server: an asyncio one for the verbs, and a blocking one for the lease's thread,
which must not depend on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from asynctask.context import logger
from asynctask.errors import ConfigurationError, StoreUnavailableError
from asynctask.messages import describe
from asynctask.stores.redis.address import place
from asynctask.stores.redis.health import Health, unavailable
from asynctask.stores.redis.patience import Patience
from asynctask.stores.redis.scripts import Script

try:
    import redis.asyncio
except ModuleNotFoundError as _exc:
    raise ImportError("RedisStore needs redis-py: pip install 'starlette-asynctask[redis]'") from _exc

from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

OLDEST = (6, 2)
"""The oldest server that will do. Valkey says 7.2 when it is asked."""
PATIENCE = 10.0
"""How long a step waits for its turn when many are asked for at once, in seconds."""

_PAUSES = (0.02, 0.0)  # seconds after a failed try, one for each; steps are idempotent, so two do no harm
_errors = redis.exceptions
# On uvloop, writing to a connection that was reset is a RuntimeError, which redis-py passes on.
_RETRIED: Any = (_errors.ConnectionError, _errors.TimeoutError, RuntimeError, OSError)
_AWAY = (*_RETRIED, _errors.RedisClusterException)
_TROUBLE = (*_AWAY, _errors.RedisError)
_UNKNOWN_USER = (_errors.AuthenticationError, _errors.AuthorizationError)


class Call(NamedTuple):
    """A script with what it is given."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[str | bytes | int]

    def command(self, *, known: bool) -> tuple[str | bytes | int, ...]:
        """Return the command that runs it on a server that knows the script, or does not yet."""
        name, text = ("EVALSHA", self.script.sha) if known else ("EVAL", self.script.text)
        return (name, text, len(self.keys), *self.keys, *self.arguments)


class Server:
    """A Redis or Valkey server, or a cluster of them.

    Args:
        url: `redis://`, `rediss://` (TLS) or `unix://`, with user and password percent-encoded.
        cluster: whether it names a node of a cluster.
        max_connections: most connections of this process; in a cluster, to each node.
        timeout: seconds that a step may take in all, retries included.

    Raises:
        ConfigurationError: the URL is unfit.
    """

    def __init__(self, url: str, *, cluster: bool, max_connections: int, timeout: float) -> None:
        self.place: str = place(url, cluster=cluster)
        self.health: Health = Health(self.place)
        self.timeout = timeout
        self._url = url
        self._cluster = cluster
        self._max_connections = max_connections
        self._client: Any = None
        self._slots = asyncio.Semaphore(max_connections)
        self._fit = False

    # -- from the event loop -----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Be able to call. Checks the server if it is there now, else at the first call.

        Raises:
            ConfigurationError: the server is too old, or refuses the user or the password.
        """
        make: Any = redis.asyncio.RedisCluster if self._cluster else redis.asyncio.Redis
        self._slots = asyncio.Semaphore(self._max_connections)
        self._client = make.from_url(
            self._url,
            # A few more than the slots, since a connection goes back a moment after its slot.
            max_connections=self._max_connections + 10,
            socket_timeout=None,  # see `_try`
            socket_connect_timeout=None,
            protocol=2,
            # One more where it may learn the new shape of a cluster; the others are made in `_try`.
            retry=AsyncRetry(NoBackoff(), int(self._cluster)),
        )
        self._fit = False
        try:
            with contextlib.suppress(StoreUnavailableError):
                await self._reach(self._check)
            yield
        finally:
            client, self._client = self._client, None
            with contextlib.suppress(*_TROUBLE):
                await client.aclose()

    async def call(self, script: Script, keys: Sequence[str], *arguments: str | bytes | int) -> Any:
        """Run a script.

        Raises:
            StoreUnavailableError: it is not known whether it ran, unless `refused` says that it did not.
        """
        return await self._reach(self._run, script, keys, arguments)

    async def members(self, index: str) -> list[bytes]:
        """Return all members of a sorted set."""
        found: list[bytes] = await self._reach(self._send_command, "ZRANGE", index, 0, -1)
        return found

    async def _reach(self, step: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Take a step when it is its turn, and again if its answer does not come, within the timeout in
        all."""
        if self._client is None:
            raise unavailable("is not started: enter the lifespan of its Jobs")
        await (self._wait_for_turn() if self._slots.locked() else self._slots.acquire())
        try:
            for pause in _PAUSES:
                try:
                    with Patience(self.timeout / len(_PAUSES)):
                        result = await step(*arguments)
                except _RETRIED as exc:
                    trouble = exc
                    await asyncio.sleep(pause)
                else:
                    self.health.succeeded()
                    return result
            raise trouble
        except _TROUBLE as exc:
            raise self.health.failed(exc, away=isinstance(exc, _AWAY)) from exc
        finally:
            self._slots.release()

    async def _wait_for_turn(self) -> None:
        streak = self.health.streak
        try:
            async with asyncio.timeout(PATIENCE):
                await self._slots.acquire()
        except TimeoutError as exc:
            raise unavailable("has too much to do") from exc
        if self.health.streak >= streak + self._max_connections:
            # All who had a turn before us found it away. To find that out in turn would take for ever.
            self._slots.release()
            raise unavailable("cannot be reached")

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Any:
        if not self._fit:
            await self._check()
        execute = self._client.execute_command
        try:
            return await execute("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except _errors.NoScriptError:
            return await execute("EVAL", script.text, len(keys), *keys, *arguments)

    async def _send_command(self, *command: str | int) -> Any:
        return await self._client.execute_command(*command)

    async def _check(self) -> None:
        """See whether the server is fit. Whoever may not ask it is trusted to know."""
        nodes: list[dict[str, Any]] = [{}]
        if self._cluster:
            await self._client.initialize()
            nodes = [{"target_nodes": node} for node in self._client.get_primaries()]
        for node in nodes:
            try:
                about = await self._client.execute_command("INFO", **node)
            except _UNKNOWN_USER as exc:
                raise ConfigurationError(
                    f"Redis at {self.place} refuses the URL's user or password: {describe(exc)}"
                ) from exc
            except _errors.ResponseError:
                continue
            check(about if "redis_version" in about else next(iter(about.values())), self.place)
        self._fit = True

    # -- from the lease's thread -------------------------------------------------------------------------

    def connect_blocking(self, timeout: float) -> Any:
        """Return a client for a thread.

        Args:
            timeout: seconds that connecting, sending or an answer may take, each.

        Raises:
            StoreUnavailableError: it is a cluster, and no node of it answers.
        """
        make: Any = redis.RedisCluster if self._cluster else redis.Redis
        try:
            return make.from_url(
                self._url,
                max_connections=2,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                protocol=2,
                retry=Retry(NoBackoff(), 1),  # a connection that was closed meanwhile is replaced at once
            )
        except _TROUBLE as exc:
            raise self.health.failed(exc, away=True) from exc

    def pipeline(self, client: Any, calls: Sequence[Call]) -> list[Any]:
        """Run scripts in one round trip, or two if the server does not know them yet.

        Args:
            client: from `connect_blocking`.
            calls: what to run.

        Returns:
            An answer for each, which is an exception if that one failed.

        Raises:
            StoreUnavailableError: none was answered.
        """
        try:
            answers = self._send(client, [call.command(known=True) for call in calls])
            unknown = [i for i, answer in enumerate(answers) if isinstance(answer, _errors.NoScriptError)]
            if unknown:
                told = self._send(client, [calls[i].command(known=False) for i in unknown])
                for i, answer in zip(unknown, told, strict=True):
                    answers[i] = answer
        except _TROUBLE as exc:
            raise self.health.failed(exc, away=isinstance(exc, _AWAY)) from exc
        failure = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failure is None:
            self.health.succeeded()
        else:
            self.health.failed(failure, away=isinstance(failure, _AWAY))
        return answers

    def _send(self, client: Any, commands: Sequence[Sequence[Any]]) -> list[Any]:
        pipe = client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        answers: list[Any] = pipe.execute(raise_on_error=False)
        return answers


def refused(exc: BaseException) -> bool:
    """Tell whether the server said no to a call, so that it did nothing."""
    return isinstance(exc.__cause__, _errors.ResponseError)


def check(about: dict[str, Any], where: str) -> None:
    """Say whether a server is fit, from what it says in `INFO`.

    Args:
        about: the fields of `INFO`.
        where: its place, for the messages.

    Raises:
        ConfigurationError: it is too old.
    """
    version = str(about.get("redis_version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if len(numbers) == 2 and numbers < OLDEST:
        raise ConfigurationError(
            f"Redis at {where} is version {version}; RedisStore needs {'.'.join(map(str, OLDEST))} or later, "
            "or any Valkey"
        )
    policy = str(about.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys") and about.get("maxmemory"):
        logger.warning(
            "Redis at %s may drop the state of runs that are RUNNING when its memory is full "
            "(maxmemory-policy %s): set noeviction, or a volatile-… policy, which leaves them alone",
            where,
            policy,
        )
