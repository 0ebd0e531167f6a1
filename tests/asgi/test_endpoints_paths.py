"""Path parameters: what they may hold, that no two are taken for one, and where Location leads."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest
from starlette.testclient import TestClient

from asynctask import Jobs, Run
from tests.asgi.support import Workshop, application, assert_problem, over_asgi


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("sent", "value"),
    [
        ("7", "7"),
        ("a%3Ab", "a:b"),
        ("a:b", "a:b"),
        ("%D1%84%E6%96%87", "ф文"),
        ("100%25", "100%"),
        ("%2525", "%25"),
        ("%252F", "%2F"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("a%3Fb%23c", "a?b#c"),
        ("a;b=c,d", "a;b=c,d"),
        ("..%20", ".. "),
        ("-._~", "-._~"),
        ("https:%3Fx", "https:?x"),
        ("status", "status"),
        ("a" * 256, "a" * 256),
    ],
)
@pytest.mark.parametrize("path", ["/api/files/{}", "/api/imports/{}/refresh"])
async def test_path_parameters(shop: Workshop, path: str, sent: str, value: str) -> None:
    """They are percent-decoded once, and Location leads to the status whatever they hold."""
    url = f"http://testserver{path.format(sent)}"
    async with shop.jobs, over_asgi(application(shop.jobs)) as client:
        answer = await client.post(url)
        assert answer.status_code == 202, answer.text
        assert (await shop.jobs.runs())[0].key == answer.json()["key"]
        target = urljoin(url, answer.headers["location"])
        assert target.startswith("http://testserver/api/")
        status = await client.get(target)
        assert (status.status_code, status.json()["runId"]) == (200, answer.json()["runId"])
    assert [*shop.runs[-1].params.values()] == [value]


@pytest.mark.anyio
async def test_different_paths_are_different_keys(shop: Workshop) -> None:
    """Separators and escapes within a parameter do not make two keys one."""
    paths = [
        "a%3Ab",
        "a%253Ab",
        "a%20b",
        "a+b",
        "a%2520b",
        "a%252520b",
        "%41",
        "%C3%A4",
        "a%CC%88",
        "a%2B%20b",
    ]
    async with shop.jobs, over_asgi(application(shop.jobs)) as client:
        answers = [(await client.post(f"/api/files/{path}")).json() for path in paths]
        assert all(answer["started"] for answer in answers)
        assert len({answer["key"] for answer in answers}) == len(paths)
        # The same path spelled another way is the same key (RFC 3986, section 6.2.2.2).
        assert (await client.post("/api/files/A")).json()["started"] is False


@pytest.mark.parametrize("value", ["a" * 257, "a%09b", "%00", "%7F", "a%C2%85", "%FF", "%ED%A0%80"])
@pytest.mark.parametrize("suffix", ["", "/status", "/cancel"])
def test_path_parameters_that_cannot_be_a_key_are_a_422(value: str, suffix: str) -> None:
    """Too long, control characters, or bytes that are no UTF-8, which servers decode to one and the same."""
    jobs = Jobs()

    @jobs.job("files/{name}", cancelable=True)
    async def files(run: Run) -> None: ...

    with TestClient(application(jobs)) as client:
        method = "GET" if suffix == "/status" else "POST"
        answer = client.request(method, f"/api/files/{value}{suffix}")
        assert "'name'" in assert_problem(answer, 422, "invalid_key")["detail"]
        assert client.get("/api/").json() == {"items": []}
