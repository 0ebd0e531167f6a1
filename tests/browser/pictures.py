"""Take the pictures in docs/pictures/ anew: `python -m tests.browser.pictures`.

With the name of a folder, every state in both colour schemes and two widths goes there, to be looked at.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

from tests.browser.conftest import ARGS, ROOT, Desk, Pages, Server, need, settled
from tests.browser.states import STATES

Scheme = Literal["light", "dark"]
SHOWN: list[tuple[str, Scheme, int]] = [
    ("success", "light", 1280),
    ("running", "light", 1280),
    ("running", "dark", 390),
    ("lost", "dark", 1280),
]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
EVERY = [(state, scheme, width) for state in STATES for scheme in SCHEMES for width in (1280, 390)]


def main() -> None:
    """Start a server and a browser, bring the demo page to each state and take its picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    server = Server()
    try:
        with sync_playwright() as playwright:
            path = need("chromium", "the pictures need Chromium: apt install chromium")
            browser = playwright.chromium.launch(executable_path=path, args=ARGS)
            for state, scheme, width in EVERY if len(sys.argv) > 1 else SHOWN:
                desk = Desk(server.url)
                pages = Pages(browser)
                context = pages.context(
                    desk,
                    color_scheme=scheme,
                    viewport={"width": width, "height": 844 if width < 600 else 800},
                    reduced_motion="reduce",  # the same picture each time
                )
                page = pages.open(context, server.url, clock=True)
                settled(page)
                if state in ("running", "lost"):  # with a list from an earlier run
                    STATES["success"](page, desk)
                STATES[state](page, desk)
                page.mouse.move(0, 0)
                page.screenshot(path=folder / f"{state}-{scheme}-{width}.png")
                pages.close()
                desk.close()
            browser.close()
    finally:
        server.kill()


if __name__ == "__main__":
    main()
