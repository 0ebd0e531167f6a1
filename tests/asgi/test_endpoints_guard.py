"""No other site's page starts or stops a run, and nothing does by GET."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.asgi.support import Workshop, application, assert_problem

CHECK = "/api/duplicates/check"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "https://other.testserver"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://testserver"}, 202),
        ({"Sec-Fetch-Site": "same-origin"}, 202),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example.com"}, 202),
    ],
)
@pytest.mark.parametrize("suffix", ["", "/cancel"])
def test_posts_from_other_sites_are_refused(
    shop: Workshop, suffix: str, headers: dict[str, str], status: int
) -> None:
    """Trigger and cancel are guarded; reading is not, since other origins cannot read the answer."""
    with TestClient(application(shop.jobs, allowed_origins=["https://app.example.com"])) as client:
        if suffix:
            client.post(CHECK)
        answer = client.post(CHECK + suffix, headers=headers)
        if status == 403:
            assert_problem(answer, 403, "cross_site")
            assert len(shop.runs) == (1 if suffix else 0)
            assert not any(run.cancel_requested for run in shop.runs)
        else:
            assert answer.status_code == status
        assert client.get(f"{CHECK}/status", headers=headers).status_code == 200
        assert client.get("/api/", headers=headers).status_code == 200


def test_a_get_changes_nothing(client: TestClient, shop: Workshop) -> None:
    """Whatever is read, no run starts or ends by it."""
    for path in (CHECK, f"{CHECK}/status", f"{CHECK}/cancel", "/api/", "/api/nothing"):
        for method in ("GET", "HEAD", "OPTIONS"):
            client.request(method, path, headers={"X-HTTP-Method-Override": "POST"})
    assert shop.runs == []
