"""The front-end files, as they travel in the wheel."""

from __future__ import annotations

from pathlib import Path

from starlette.staticfiles import StaticFiles

from asynctask.errors import ConfigurationError


def static_files() -> StaticFiles:
    """Return an application that serves `asynctask.js`, `react.js` and the demo page.

    Mount it where pages load them from: `Mount("/static/asynctask", static_files())`.

    Raises:
        ConfigurationError: the files are missing from the installation.
    """
    package = Path(__file__).resolve().parents[1]
    # In the wheel they lie in the package; in a checkout (an editable install) beside it.
    for folder in (package / "static", package.parent / "static"):
        if (folder / "asynctask.js").is_file():
            return StaticFiles(directory=folder)
    raise ConfigurationError(
        "the front-end files are missing from this installation: install it from a wheel"
    )
