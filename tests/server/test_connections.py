"""Connections: kept alive, closed in the middle of a wait, used by one tenant after the other."""

from __future__ import annotations

import pytest

from tests.server.harness import Server


def under_way(server: Server, expected: int) -> None:
    """Ask until the server is working on so many requests."""
    for _ in range(10_000):
        if server.request("GET", "/under-way").json == expected:
            return
    raise AssertionError(f"there never were {expected} requests under way")


@pytest.mark.parametrize("app", ["plain", "wrapped"])
def test_a_run_does_not_block_the_next_request_on_its_connection(app: str) -> None:
    """Unlike a background task of a response, a run is no part of the request that started it."""
    with Server(app) as server:
        connection = server.connect()
        run_id = connection.request("POST", "/api/held").json["runId"]
        for _ in range(3):
            status = connection.request("GET", "/api/held/status").json
            assert (status["status"], status["runId"]) == ("RUNNING", run_id)
        connection.request("POST", "/release")
        assert server.settled("/api/held")["runId"] == run_id


@pytest.mark.parametrize("app", ["patient", "patient_wrapped"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_client_that_disconnects_in_a_wait(app: str, method: str) -> None:
    """Its request ends, though it asked for minutes; the run goes on to its end for everybody else."""
    with Server(app) as server:
        first = server.request("POST", "/api/held")
        leaving = server.connect()
        path = "/api/held" if method == "POST" else "/api/held/status"
        leaving.ask(method, path, Prefer="wait=600", If_None_Match=first.headers["etag"])
        under_way(server, 1)
        leaving.close()
        under_way(server, 0)
        assert server.request("GET", "/api/held/status").json["status"] == "RUNNING"
        server.request("POST", "/release")
        over = server.settled("/api/held")
        assert (over["status"], over["runId"]) == ("SUCCESS", first.json["runId"])
        assert server.found("Traceback|ERROR") == []


@pytest.mark.parametrize("app", ["patient", "patient_wrapped"])
def test_a_wait_does_not_spoil_its_connection(app: str) -> None:
    """After a wait the same connection serves the next requests, which are not mistaken for its end."""
    with Server(app) as server:
        connection, other = server.connect(), server.connect()
        for _ in range(3):
            connection.ask("POST", "/api/held", Prefer="wait=600")
            under_way(server, 1)
            other.request("POST", "/release")
            answer = connection.answer()
            assert (answer.status, answer.json["status"]) == (200, "SUCCESS")
            assert connection.request("GET", "/api/held/status").json["runId"] == answer.json["runId"]


def test_a_variable_of_an_earlier_request_is_no_tenant() -> None:
    """On a connection that is kept alive, a request can see what an earlier one has set on it.

    The tenant is taken from the request itself, so the next visitor of a shared proxy connection is
    refused, not served the other one's run.
    """
    with Server("remembering") as server:
        connection = server.connect()
        acme = connection.request("POST", "/api/held", X_Tenant="acme")
        assert acme.status == 202
        for method, path in (("POST", "/api/held"), ("GET", "/api/held/status"), ("GET", "/api/")):
            answer = connection.request(method, path)
            assert (answer.status, answer.json["code"]) == (401, "unauthenticated")
        globex = connection.request("POST", "/api/held", X_Tenant="globex")
        assert globex.json["started"] is True
        connection.request("POST", "/release")
        for tenant, started in (("acme", acme), ("globex", globex)):
            over = server.settled("/api/held", X_Tenant=tenant)
            assert over["runId"] == started.json["runId"]
            assert over["result"] == {"tenant": tenant, "variable": tenant}
