"""Users, passwords, rights, TLS and sockets; and that no credential is ever said."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import anyio
import pytest

from asynctask.errors import ConfigurationError, StoreUnavailableError
from asynctask.run import Run
from asynctask.snapshot import Status
from demo.redis_server import RedisServer
from tests.stores.support import KEY, LIMIT, RECORD, eventually, held, plain, short, steady

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

SECRET = "p:a/s@s%w?ö#rd"
QUOTED = "p%3Aa%2Fs%40s%25w%3F%C3%B6%23rd"


@pytest.fixture
def anyio_backend() -> str:
    """redis-py's asynchronous client is asyncio's alone."""
    return "asyncio"


async def test_wrong_password_is_said_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """The application does not start with a password that Redis refuses, and the password is said nowhere."""
    with RedisServer("--requirepass", "right") as server:
        store = steady(f"redis://:{QUOTED}@127.0.0.1:{server.port}/0")
        with pytest.raises(ConfigurationError, match="refuses") as caught:
            async with store:
                pass
    for text in (str(caught.value), repr(store), caplog.text):
        assert SECRET not in text
        assert QUOTED not in text


async def test_user_and_password_with_just_the_rights_that_the_docs_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An ACL user that may do what docs/upgrading.md lists can do all; a password of any characters works."""
    rights = (
        "~asynctask:* +evalsha +eval +hmget +hget +hset +hdel +hincrby +persist +pexpire +pexpireat +zadd"
    )
    rights += " +zrem +zremrangebyscore +zrange +time"
    with RedisServer() as server, plain(server.url) as client:
        client.acl_setuser("app", enabled=True, passwords=[f"+{SECRET}"], reset=True)
        client.execute_command("ACL", "SETUSER", "app", *rights.split())
        url = f"redis://app:{QUOTED}@127.0.0.1:{server.port}/0"
        async with short(url) as one, short(url) as two:
            run = Run(KEY)
            await one.claim(run)
            run.advance()
            await eventually(lambda: client.hget(RECORD, "ver") == "2")
            await two.cancel(KEY)
            await eventually(lambda: run.cancel_requested)
            run.finish(Status.SUCCESS)
            assert await one.settle(run)
            assert len(await two.list("acme")) == 1
            async with held(one):
                pass
            with anyio.fail_after(LIMIT):
                while (seen := await two.read(KEY)) is None or seen.error_code != "worker_lost":
                    await anyio.sleep(0.05)
            assert "fails" not in caplog.text
            client.acl_setuser("app", enabled=True, nopass=True, reset=True)
            with pytest.raises(StoreUnavailableError) as caught:
                await one.read(KEY)
            assert SECRET not in str(caught.value) + caplog.text


def certificate(folder: Path) -> tuple[str, str]:
    """Make a certificate for 127.0.0.1 that signs itself."""
    key, made = str(folder / "key.pem"), str(folder / "cert.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", made,
         "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return key, made


async def progresses(url: str, server: RedisServer) -> None:
    """See both clients at work, that of the verbs and that of the lease's thread."""
    with plain(server.url) as client:
        async with steady(url) as store, held(store) as run:
            run.advance()
            await eventually(lambda: client.hget(RECORD, "ver") == "2")


async def test_tls(tmp_path: Path) -> None:
    """rediss:// works, with the certificate checked: one that nobody vouches for is refused."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on the PATH to make a certificate with")
    key, made = certificate(tmp_path)
    with RedisServer() as probe:
        port = probe.port
    options = ["--tls-cert-file", made, "--tls-key-file", key, "--tls-ca-cert-file", made]
    server = RedisServer(*options, "--tls-auth-clients", "no", "--tls-port", str(port))
    try:
        server.start()
    except RuntimeError as exc:
        pytest.skip(f"this server was built without TLS: {exc}")
    with server:
        url = f"rediss://127.0.0.1:{port}/0"
        await progresses(f"{url}?ssl_ca_certs={made}", server)
        async with short(url) as store:
            with pytest.raises(StoreUnavailableError):
                await store.read(KEY)


async def test_unix_socket(tmp_path: Path) -> None:
    """unix:// works."""
    with RedisServer("--unixsocket", str(tmp_path / "s")) as server:
        await progresses(f"unix://{tmp_path / 's'}", server)
