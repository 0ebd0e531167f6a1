"""The README's examples run as they stand there."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pydantic
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import asynctask
from asynctask.stores.redis import RedisStore
from tests.demo_process import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

README = (ROOT / "README.md").read_text()


def example(mark: str) -> str:
    """The Python example that holds `mark`."""
    blocks = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if mark in block]
    assert len(blocks) == 1, f"{len(blocks)} examples hold {mark!r}"
    return str(blocks[0])


def finished(client: TestClient, path: str, payload: Any = None) -> dict[str, Any]:
    answer = client.post(path, json=payload, headers={"Prefer": "wait=10"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def _products() -> list[str]:
    await asyncio.sleep(0)
    return ["Mug", "mug", "Bowl"]


async def _fingerprint(title: str) -> str:
    await asyncio.sleep(0)
    return title.lower()


def test_first_example() -> None:
    """The ten lines at the top serve a job under /api."""
    names: dict[str, Any] = {
        "load_products": _products,
        "fetch_fingerprint": _fingerprint,
        "count_groups": lambda prints: len(prints) - len(set(prints)),
    }
    exec(example('Mount("/api", routes=routes(jobs, tenant=tenant))], lifespan'), names)

    class User:
        tenant = "acme"

    def signed_in(app: ASGIApp) -> ASGIApp:
        async def with_user(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "user": User()}, receive, send)

        return with_user

    with TestClient(signed_in(names["app"])) as client:
        run = finished(client, "/api/duplicates/check")
        assert (run["status"], run["percent"]) == ("SUCCESS", 100)
        assert run["result"] == {"products": 3, "groups": 1}
        assert client.get("/api/duplicates/check/status").json()["runId"] == run["runId"]
        assert [item["runId"] for item in client.get("/api/").json()["items"]] == [run["runId"]]


def test_lifespan_example() -> None:
    """An application that has a lifespan enters the jobs in it."""
    jobs = asynctask.Jobs()

    @asynccontextmanager
    async def database() -> AsyncIterator[None]:
        yield

    names: dict[str, Any] = {"asynccontextmanager": asynccontextmanager, "database": database(), "jobs": jobs}
    exec(example("async with database, jobs"), names)

    @jobs.job("work")
    async def work(run: asynctask.Run) -> str:
        return "done"

    from asynctask.asgi import routes

    with TestClient(Starlette(routes=list(routes(jobs)), lifespan=names["lifespan"])) as client:
        assert finished(client, "/work")["result"] == "done"


def test_fastapi_example() -> None:
    """The FastAPI application validates the payload and passes the path parameter."""
    stored: list[tuple[str, str]] = []

    async def store(shop: str, row: str) -> None:
        stored.append((shop, row))

    async def read_rows(file_id: int) -> list[str]:
        return [f"row {n}" for n in range(file_id)]

    names: dict[str, Any] = {
        "pydantic": pydantic,
        "tenant": lambda request: "acme",
        "read_rows": read_rows,
        "store": store,
    }
    exec(example("FastAPI(lifespan=jobs.lifespan)"), names)
    with TestClient(names["app"]) as client:
        run = finished(client, "/api/imports/north", {"file_id": 2})
        assert (run["result"], run["key"]) == ({"rows": 2}, "imports/north")
        assert stored == [("north", "row 0"), ("north", "row 1")]
        refused = client.post("/api/imports/north", json={"file_id": "many"})
        assert refused.status_code == 422
        assert "file_id" in refused.json()["detail"]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_short_examples() -> None:
    """The one-liners about httpx and Redis construct what they name."""
    names: dict[str, Any] = {
        "httpx": httpx,
        "PooledTransport": asynctask.PooledTransport,
        "Jobs": asynctask.Jobs,
    }
    exec(example("PooledTransport(max_connections=100)"), names)
    async with names["client"]:
        pass
    exec(example("RedisStore("), names)
    assert isinstance(names["jobs"].store, RedisStore)


def test_commands_are_those_of_the_makefile() -> None:
    """Every `make` target that the README or CONTRIBUTING names exists."""
    makefile = (ROOT / "Makefile").read_text()
    text = README + (ROOT / "CONTRIBUTING.md").read_text()
    targets = set(re.findall(r"(?:\$ |`)make ([a-z][a-z-]+)", text))
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_curl_lines_are_those_of_the_demo() -> None:
    """The README's curl lines are the ones that the demo prints."""
    from demo.serve import TRY

    acme, globex = (f"-H 'Authorization: Bearer {name}-demo'" for name in ("acme", "globex"))
    printed = TRY.format(acme=acme, globex=globex, url="http://127.0.0.1:8000", limit=30)
    lines = re.findall(r"^\$ (curl .*)$", README, re.MULTILINE)
    assert set(lines) == {line for line in printed.splitlines() if line.startswith("curl")}


def test_links_lead_somewhere() -> None:
    """Each relative link of the project's pages names a file that is there."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")]
    for page in [*pages, *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
