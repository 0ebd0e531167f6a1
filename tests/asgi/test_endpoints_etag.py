"""An entity tag stands for one sequence of bytes: it changes exactly when the body does."""

from __future__ import annotations

from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from asynctask import Run
from tests.asgi.support import Workshop, application, over_asgi

count = st.integers(-3, 2_000)
step = st.one_of(
    st.tuples(st.just("advance"), count, count),
    st.tuples(st.just("total"), st.none() | count),
    st.tuples(st.just("message"), st.none() | st.sampled_from(["", "loading", " loading ", "a\x00b", "…"])),
    st.just(("cancel",)),
    st.just(("release",)),
    st.just(("trigger",)),
    st.just(("look",)),
)


def take(run: Run, name: str, *values: Any) -> None:
    """Do what a job's body could do."""
    if name == "advance":
        run.advance(values[0], failed=values[1])
    elif name == "total":
        run.total = values[0]
    elif name == "message":
        run.message = values[0]


@settings(max_examples=60, deadline=None)
@given(st.lists(step, max_size=25))
def test_the_entity_tag_changes_exactly_with_the_body(steps: list[tuple[Any, ...]]) -> None:
    """Over any course of a key's runs: equal tags mean equal bytes, and equal bytes equal tags."""

    async def main() -> None:
        shop = Workshop()
        bodies: dict[str, bytes] = {}
        etags: dict[bytes, str] = {}
        async with shop.jobs, over_asgi(application(shop.jobs)) as client:

            async def look() -> None:
                answer = await client.get("/api/duplicates/check/status")
                etag = answer.headers["etag"]
                assert bodies.setdefault(etag, answer.content) == answer.content
                assert etags.setdefault(answer.content, etag) == etag
                repeated = await client.get("/api/duplicates/check/status", headers={"If-None-Match": etag})
                assert repeated.status_code == 304
                (*listed,) = (await client.get("/api/")).json()["items"]
                assert listed in ([], [answer.json()])

            await look()
            for name, *values in steps:
                await anyio.wait_all_tasks_blocked()
                if name == "trigger":
                    await client.post("/api/duplicates/check")
                elif name == "cancel":
                    await client.post("/api/duplicates/check/cancel")
                elif shop.runs and name == "release":
                    shop.release()
                elif shop.runs:
                    take(shop.runs[-1], name, *values)
                await look()

    anyio.run(main)
