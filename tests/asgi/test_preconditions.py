"""What a request's headers ask for."""

from __future__ import annotations

import pytest

from asynctask import ConfigurationError
from asynctask.asgi.preconditions import SameSite, header, none_match, preferred_wait
from asynctask.asgi.wire import Refusal


def raw(*pairs: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI gives them."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]


def test_a_header_sent_on_several_lines_is_one_list() -> None:
    """RFC 9110, section 5.3: lines of one name mean the same as one line joined by commas."""
    assert header(raw(("Prefer", "wait=1"), ("Host", "x"), ("Prefer", "foo")), b"prefer") == b"wait=1, foo"
    assert header(raw(("Host", "x")), b"prefer") is None


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("wait=3", 3),
        ("WAIT=3", 3),
        ("Wait = 3", 3),
        (' wait="3" ', 3),
        ("respond-async, wait=3", 3),
        ("wait=3, respond-async", 3),
        ("wait=3;foo=bar", 3),
        ("wait=3; foo", 3),
        ('return=minimal; foo="a, b", wait=3', 3),
        ("wait=0", 0),
        ("wait=007", 7),
        # More than the server allows is cut, however long the number is.
        ("wait=60", 10),
        ("wait=99999999999", 10),
        ("wait=" + "9" * 5000, 10),
        ("wait=" + "0" * 5000 + "4", 4),
        # RFC 7240, section 2: of several, the first is the one that counts.
        ("wait=2, wait=5", 2),
        ("wait=soon, wait=5", None),
        # What makes no sense is ignored.
        ("wait=-3", None),
        ("wait=+3", None),
        ("wait=1.5", None),
        ("wait=3s", None),
        ("wait=", None),
        ('wait=""', None),
        ("wait", None),
        ("wait=3 4", None),
        ("await=3", None),
        ("no-wait=3", None),
        ("respond-async", None),
        ("", None),
        (",,;=", None),
        # A parameter of another preference, and text within quotes, are no preferences.
        ("foo; wait=3", None),
        ('foo="wait=3"', None),
        ('foo=", wait=3"', None),
        ('foo="\\", wait=3"', None),
        ('foo=", wait=3', None),
        ("wait=\xb3", None),
    ],
)
def test_prefer_wait(value: str, wait: int | None) -> None:
    """`Prefer: wait=N` is read as RFC 7240 spells it, and cut to what the server allows."""
    assert preferred_wait(raw(("Prefer", value)), 10.0) == wait


def test_prefer_on_several_lines() -> None:
    """A preference may stand on a header line of its own; without any there is nothing to wait for."""
    assert preferred_wait(raw(("Prefer", "respond-async"), ("Prefer", "wait=4")), 10.0) == 4
    assert preferred_wait(raw(("Host", "x")), 10.0) is None


def test_a_cap_below_a_second_is_kept() -> None:
    """The server's cap need not be whole seconds, and is never exceeded."""
    assert preferred_wait(raw(("Prefer", "wait=4")), 0.25) == 0.25
    assert preferred_wait(raw(("Prefer", "wait=4")), 0) == 0


@pytest.mark.parametrize(
    ("value", "matches"),
    [
        ('"r.7"', True),
        (' "r.7" ', True),
        ('W/"r.7"', True),
        ('"r.6", "r.7"', True),
        ('"r.6",W/"r.7","r.8"', True),
        ('"a,b", "r.7"', True),
        ("*", True),
        (" * ", True),
        ('"r.6"', False),
        ('"r.77"', False),
        ('"R.7"', False),
        ("r.7", False),
        ('"r.7', False),
        ("", False),
        ("W/", False),
        ('"r.6, r.7"', False),
    ],
)
def test_if_none_match(value: str, matches: bool) -> None:
    """`If-None-Match` is compared weakly, tag by tag (RFC 9110, section 13.1.2)."""
    assert none_match(raw(("If-None-Match", value)), b'"r.7"') is matches


def test_if_none_match_on_several_lines_and_absent() -> None:
    """Tags may come on several lines; without the header nothing matches."""
    assert none_match(raw(("If-None-Match", '"r.6"'), ("If-None-Match", '"r.7"')), b'"r.7"')
    assert not none_match(raw(("Host", "x")), b'"r.7"')


FRIEND = "https://app.example.com"


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        # No browser at all: curl, a script, another server.
        ({}, True),
        ({"Host": "shop.example"}, True),
        # A browser that says where the request comes from.
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://shop.example"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": ""}, False),
        ({"Sec-Fetch-Site": "nonsense"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, False),
        ({"Sec-Fetch-Site": "same-site", "Origin": "https://other.shop.example"}, False),
        # What the browser says of the site outweighs an Origin that looks like the host.
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://shop.example", "Host": "shop.example"}, False),
        # Sites that the application lets in.
        ({"Sec-Fetch-Site": "same-site", "Origin": FRIEND}, True),
        ({"Sec-Fetch-Site": "cross-site", "Origin": FRIEND}, True),
        ({"Sec-Fetch-Site": "cross-site", "Origin": FRIEND.upper()}, True),
        ({"Origin": FRIEND, "Host": "shop.example"}, True),
        ({"Origin": FRIEND + ":444"}, False),
        ({"Origin": "http://app.example.com"}, False),
        ({"Origin": FRIEND + ".evil.example"}, False),
        # A browser that says nothing of the site: its Origin has to be the host.
        ({"Origin": "https://shop.example", "Host": "shop.example"}, True),
        ({"Origin": "https://Shop.Example", "Host": "SHOP.example"}, True),
        ({"Origin": "https://shop.example", "Host": "shop.example:443"}, True),
        ({"Origin": "http://shop.example:80", "Host": "shop.example"}, True),
        ({"Origin": "http://shop.example:8000", "Host": "shop.example:8000"}, True),
        ({"Origin": "http://[::1]:8000", "Host": "[::1]:8000"}, True),
        ({"Origin": "http://[::1]", "Host": "[::1]:80"}, True),
        ({"Origin": "http://shop.example", "Host": "shop.example:8000"}, False),
        ({"Origin": "http://shop.example:8000", "Host": "shop.example"}, False),
        ({"Origin": "https://evil.example", "Host": "shop.example"}, False),
        ({"Origin": "https://shop.example.evil.example", "Host": "shop.example"}, False),
        ({"Origin": "null", "Host": "shop.example"}, False),
        ({"Origin": "null", "Host": "null"}, False),
        ({"Origin": "", "Host": ""}, False),
        ({"Origin": "https://shop.example"}, False),
    ],
)
def test_cross_site_guard(headers: dict[str, str], passes: bool) -> None:
    """A POST passes if it comes from this site, from an allowed one, or from no browser."""
    guard = SameSite([FRIEND])
    if passes:
        guard.check(raw(*headers.items()))
    else:
        with pytest.raises(Refusal) as refused:
            guard.check(raw(*headers.items()))
        assert (refused.value.status, refused.value.code) == (403, "cross_site")
        assert "allowed_origins" in str(refused.value)


def test_two_origins_are_no_origin() -> None:
    """A repeated header cannot smuggle an allowed origin beside another one."""
    with pytest.raises(Refusal):
        SameSite([FRIEND]).check(raw(("Origin", FRIEND), ("Origin", "https://evil.example")))


def test_a_long_origin_is_not_echoed_in_full() -> None:
    """The refusal stays readable whatever was sent."""
    with pytest.raises(Refusal) as refused:
        SameSite([]).check(raw(("Origin", "https://" + "e" * 10_000)))
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    "origins",
    [
        "https://app.example.com",
        ["app.example.com"],
        ["https://app.example.com/"],
        ["https://app.example.com/shop"],
        ["https://app.example.com?x"],
        ["https://app.example.com#x"],
        ["https://user@app.example.com"],
        ["https://app.example.com:port"],
        ["https://"],
        ["*"],
        ["null"],
        [""],
        [None],
        None,
        7,
    ],
)
def test_what_is_no_list_of_origins_is_refused_at_once(origins: object) -> None:
    """A mistake in `allowed_origins` shows when the routes are made, not as a 403 in production."""
    with pytest.raises(ConfigurationError, match="allowed_origins"):
        SameSite(origins)  # type: ignore[arg-type]


def test_an_allowed_origin_may_name_the_default_port() -> None:
    """Browsers leave the default port out of `Origin`, so it counts for nothing in the list either."""
    SameSite(["https://app.example.com:443"]).check(raw(("Origin", FRIEND)))
    SameSite(["HTTPS://App.Example.com"]).check(raw(("Origin", FRIEND)))
