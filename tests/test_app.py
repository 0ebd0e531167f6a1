"""The demo over real sockets: what its curl lines promise."""

from __future__ import annotations

import collections
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx
import pytest

from demo.products import generate
from demo.remote_api import fingerprint
from tests.demo_process import ACME, CHECK, GLOBEX, Demo, running_demo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def quick() -> Iterator[Demo]:
    """A demo whose check takes a moment."""
    with running_demo("--records=300", "--latency=0.001", "--max-at-once=7") as demo:
        yield demo


@pytest.fixture
def slow() -> Iterator[Demo]:
    """A demo whose check would take minutes."""
    with running_demo("--records=300", "--latency=0.5", "--max-at-once=1", "--gateway-limit=0.1") as demo:
        yield demo


def test_check(quick: Demo) -> None:
    """The check ends in SUCCESS with the right summary, after one call a product, never more than allowed."""
    answer = quick.http.post(CHECK)
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["started"]) == ("RUNNING", True)
    assert urljoin(str(answer.url), answer.headers["location"]) == f"{quick.url}{CHECK}/status"
    run_id = answer.json()["runId"]

    status = quick.http.get(f"{CHECK}/status")
    seen = [status.json()]
    while seen[-1]["status"] == "RUNNING":  # each long poll ends with the next change
        tag = {"Prefer": "wait=10", "If-None-Match": status.headers["etag"]}
        status = quick.http.get(f"{CHECK}/status", headers=tag)
        seen.append(status.json())
    counts = [snapshot["processed"] for snapshot in seen]
    assert counts == sorted(counts)
    assert {snapshot["runId"] for snapshot in seen} == {run_id}

    titles = generate(300, seed=1)
    same = [n for n in collections.Counter(map(fingerprint, titles)).values() if n > 1]
    summary = {"products": 300, "groups": len(same), "duplicates": sum(same) - len(same)}
    assert seen[-1]["status"] == "SUCCESS"
    assert seen[-1]["result"] == summary
    stats = httpx.get(f"{quick.remote}/stats", trust_env=False).json()
    assert stats["calls"] == 300
    assert stats["peak"] <= 7

    listed = quick.http.get("/api/duplicates", params={"limit": 1000}).json()
    assert (listed["tenant"], listed["runId"]) == ("acme", run_id)
    assert {name: listed[name] for name in summary} == summary
    assert len(listed["items"]) == len(same)
    for group in listed["items"]:
        assert len(group["products"]) > 1
        for product in group["products"]:
            assert titles[product["id"] - 1] == product["title"]
            assert fingerprint(product["title"]) == group["fingerprint"]
    parts = [quick.http.get("/api/duplicates", params={"limit": 5, "offset": n}).json() for n in (0, 5)]
    assert parts[0]["items"] + parts[1]["items"] == listed["items"][:10]


def test_second_trigger_joins_and_tenants_are_apart(slow: Demo) -> None:
    """A second trigger joins the run; the other tenant sees IDLE and an empty list; cancelling ends it."""
    first, second = slow.http.post(CHECK).json(), slow.http.post(CHECK).json()
    assert (first["started"], second["started"]) == (True, False)
    assert first["runId"] == second["runId"]
    other = slow.http.get(f"{CHECK}/status", headers=GLOBEX).json()
    assert (other["status"], other["runId"]) == ("IDLE", None)
    assert slow.http.get("/api/", headers=GLOBEX).json() == {"items": []}
    assert slow.http.get("/api/duplicates", headers=GLOBEX).json()["runId"] is None
    cancelled = slow.http.post(f"{CHECK}/cancel")
    assert (cancelled.status_code, cancelled.json()["cancelRequested"]) == (202, True)
    while (over := slow.http.get(f"{CHECK}/status").json())["status"] == "RUNNING":
        slow.http.get(f"{CHECK}/status", headers={"Prefer": "wait=10", "If-None-Match": "*"})
    assert (over["status"], over["errorCode"], over["runId"]) == ("FAILED", "cancelled", first["runId"])
    assert slow.http.get("/api/duplicates").json()["runId"] is None


def test_each_tenant_has_products_of_its_own(quick: Demo) -> None:
    """Both tenants check at the same time, each its own catalogue."""
    acme, globex = quick.finished(ACME), quick.finished(GLOBEX)
    assert acme["runId"] != globex["runId"]
    lists = [quick.http.get("/api/duplicates", headers=who).json() for who in (ACME, GLOBEX)]
    assert [found["tenant"] for found in lists] == ["acme", "globex"]
    assert lists[0]["items"] != lists[1]["items"]


@pytest.mark.parametrize(
    ("headers", "tenant"),
    [
        ({"Authorization": "bearer  acme-demo"}, "acme"),
        ({"Cookie": "tenant=globex-demo"}, "globex"),
        ({"Cookie": "tenant=globex-demo", **ACME}, "acme"),
        ({}, None),
        ({"Authorization": "Bearer other"}, None),
        ({"Authorization": "Bearer other", "Cookie": "tenant=acme-demo"}, None),
        ({"Authorization": "Basic YWNtZS1kZW1v", "Cookie": "tenant=acme-demo"}, None),
        ({"Authorization": ""}, None),
        ({"Cookie": "tenant="}, None),
        ({"Cookie": "tenant=acme"}, None),
    ],
)
@pytest.mark.parametrize("path", ["/api/duplicates", f"{CHECK}/status", f"{CHECK}/assessment", "/api/"])
def test_who_is_asking(quick: Demo, headers: dict[str, str], tenant: str | None, path: str) -> None:
    """The bearer token counts, else the cookie; anything else is 401 with a challenge and what to send."""
    answer = httpx.get(quick.url + path, headers=headers, trust_env=False)
    if tenant is None:
        assert answer.status_code == 401
        assert answer.headers["content-type"] == PROBLEM
        assert answer.headers["www-authenticate"].startswith("Bearer realm=")
        assert answer.json()["code"] == "unauthenticated"
        assert "acme-demo" in answer.json()["detail"]
    else:
        assert answer.status_code == 200
        assert answer.json().get("tenant", tenant) == tenant


def test_another_sites_page_cannot_trigger(quick: Demo) -> None:
    """A cross-site POST is refused although the browser would send the cookie along."""
    headers = {
        "Cookie": "tenant=globex-demo",
        "Sec-Fetch-Site": "cross-site",
        "Origin": "https://evil.example",
    }
    answer = httpx.post(quick.url + CHECK, headers=headers, trust_env=False)
    assert (answer.status_code, answer.headers["content-type"]) == (403, PROBLEM)


def test_synchronous_version(quick: Demo, slow: Demo) -> None:
    """The synchronous version gives the same counts where it is quick, and 504 past the gateway's limit."""
    answer = quick.http.get("/sync/duplicates")
    assert answer.status_code == 200
    seconds = answer.json().pop("seconds")
    assert {**quick.finished()["result"], "seconds": seconds} == answer.json()
    late = slow.http.get("/sync/duplicates")
    assert (late.status_code, late.headers["content-type"]) == (504, PROBLEM)
    assert late.json()["code"] == "gateway_timeout"
    assert "0 of 300 products" in late.json()["detail"]
    assert httpx.get(slow.url + "/sync/duplicates", trust_env=False).status_code == 401


def test_assessment(slow: Demo, quick: Demo) -> None:
    """Before a run the settings are assessed, afterwards what was measured."""
    before = slow.http.get(f"{CHECK}/assessment").json()
    assert (before["verdict"], before["records"], before["measured"]) == ("job", 300, None)
    quick.finished()
    after = quick.http.get(f"{CHECK}/assessment").json()
    assert after["measured"]["runs"] >= 1
    assert after["records"] == 300


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/duplicates?limit=0", 422),
        ("GET", "/api/duplicates?limit=1001", 422),
        ("GET", "/api/duplicates?offset=-1", 422),
        ("GET", "/api/duplicates?offset=²", 422),
        ("GET", "/api/duplicates?limit=" + "9" * 5000, 422),
        ("POST", "/api/duplicates", 405),
        ("GET", CHECK, 405),
        ("GET", "/api/other", 404),
        ("GET", "/other", 404),
    ],
)
def test_errors_are_problem_documents(quick: Demo, method: str, path: str, status: int) -> None:
    """Whatever is wrong with a request is told as application/problem+json."""
    answer = quick.http.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert {"title", "status", "code", "detail"} <= answer.json().keys()
    assert len(answer.text) < 500


class _Page(HTMLParser):
    """What a page loads, and what it holds that a strict Content-Security-Policy would not run."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "link", "img"):
            url = given.get("src") or given.get("href")
            (self.loads.append(url) if url else self.inline.append(tag))
        if tag == "style" or any(name == "style" or name.startswith("on") for name in given):
            self.inline.append(f"{tag} {given}")


def test_page(quick: Demo) -> None:
    """The page comes with a strict policy, holds nothing that it forbids, and all that it loads is there."""
    answer = httpx.get(quick.url, trust_env=False)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = _Page()
    page.feed(answer.text)
    assert page.inline == []
    assert page.loads
    for url in page.loads:
        found = httpx.get(urljoin(f"{quick.url}/", url), trust_env=False)
        assert found.status_code == 200, url
        assert found.headers["x-content-type-options"] == "nosniff"


def test_own_catalogue(tmp_path: Path) -> None:
    """A CSV file becomes the first tenant's catalogue, and its duplicates are found."""
    file = tmp_path / "shop.csv"
    file.write_text("Artikel;Preis\nBlaue Tasse;3\nTasse, blaue;4\nTeller;5\n", encoding="cp1252")
    with running_demo("--latency=0", "--records=50", f"--catalogue={file}") as demo:
        assert re.search(r"acme-demo +3 products \(shop.csv, column 'Artikel'", demo.banner)
        assert re.search(r"globex-demo +50 products", demo.banner)
        assert demo.finished()["result"] == {"products": 3, "groups": 1, "duplicates": 1}
        items = demo.http.get("/api/duplicates").json()["items"]
        assert [product["id"] for product in items[0]["products"]] == [1, 2]
