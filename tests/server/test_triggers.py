"""Triggers over real sockets."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

from tests.server.harness import Server

CROWD = 200


@pytest.mark.parametrize("app", ["plain", "wrapped"])
def test_a_crowd_triggers_one_run(app: str) -> None:
    """200 POSTs on 200 open connections at once: one run id, 200 × 202, one of them the start."""
    with Server(app) as server:
        crowd = [server.connect() for _ in range(CROWD)]
        for connection in crowd:
            connection.ask("POST", "/api/held")
        answers = [connection.answer() for connection in crowd]
        assert [answer.status for answer in answers] == [202] * CROWD
        assert len({answer.json["runId"] for answer in answers}) == 1
        assert sorted(answer.json["started"] for answer in answers) == [False] * (CROWD - 1) + [True]
        assert len(server.found(r"\|job held started")) == 1
        assert server.request("POST", "/release").json == 1
        assert server.settled("/api/held")["status"] == "SUCCESS"
        # When it is over, the next trigger is a fresh run.
        again = server.request("POST", "/api/held").json
        assert again["started"] is True
        assert again["runId"] != answers[0].json["runId"]


def test_paths_are_decoded_once() -> None:
    """What a real server makes of a path: escapes do not make two keys one, and Location holds."""
    with Server("plain") as server:
        runs = set()
        for name in ("a%3Ab", "a%253Ab", "%2525", "%25", "%C3%A4", "a%20b", "a+b"):
            path = f"/api/files/{name}"
            answer = server.request("POST", path)
            assert (answer.status, answer.json["started"]) == (202, True)
            status = server.request("GET", urljoin(path, answer.headers["location"]))
            assert status.json["runId"] == answer.json["runId"]
            runs.add(answer.json["runId"])
        assert len(runs) == 7
        assert server.request("POST", "/api/files/a%FFb").status == 422
        assert server.request("POST", "/api/files/a%2Fb").status == 404


def test_behind_a_proxy_that_strips_a_prefix() -> None:
    """With `--root-path`, as such servers are told of the prefix, everything resolves as well."""
    with Server("plain", "--root-path", "/shop") as server:
        answer = server.request("POST", "/api/held")
        assert answer.status == 202
        assert urljoin("https://example.com/shop/api/held", answer.headers["location"]) == (
            "https://example.com/shop/api/held/status"
        )
        assert server.request("GET", "/api/held/status").json["runId"] == answer.json["runId"]
        assert server.request("GET", "/api/nothing").json["code"] == "unknown_job"


def test_the_app_tells_bad_requests_over_sockets() -> None:
    """Bodies as they come over the wire: chunked, too large, of the wrong type; the connection lives on."""
    with Server("plain") as server:
        connection = server.connect()
        json = {"Content_Type": "application/json"}
        too_large = b'"' + b"x" * 2_000_000 + b'"'
        assert connection.request("POST", "/api/held", too_large, **json).status == 413
        assert connection.request("POST", "/api/held", b"{", **json).status == 400
        assert connection.request("POST", "/api/held", b"{}", Content_Type="text/plain").status == 415
        assert connection.request("POST", "/api/held", b"[]", **json).status == 422
        assert connection.request("POST", "/api/held", Origin="https://evil.example").status == 403
        assert connection.request("GET", "/api/held/status").json["status"] == "IDLE"
