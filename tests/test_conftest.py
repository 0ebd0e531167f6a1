"""The switch that CI sets so that nothing is skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

QUICKLY = [
    "-p",
    "tests.conftest",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:playwright",
    "-p",
    "no:hypothesispytest",
]
SKIPPING = {
    "mark": "import pytest\n@pytest.mark.skip(reason='no browser')\ndef test(): pass",
    "call": "import pytest\ndef test(): pytest.skip('no browser')",
    "module": "import pytest\npytest.skip('no browser', allow_module_level=True)",
}


@pytest.mark.parametrize(("switch", "outcome"), [("0", "3 skipped"), ("1", "1 failed, 2 errors")])
def test_a_skip_fails_under_the_switch(tmp_path: Path, switch: str, outcome: str) -> None:
    """ASYNCTASK_NO_SKIPS=1 turns each way of skipping into a failure that gives the reason."""
    for kind, text in SKIPPING.items():
        (tmp_path / f"test_{kind}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "--continue-on-collection-errors", *QUICKLY, str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "ASYNCTASK_NO_SKIPS": switch},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout, done.stdout
    assert "no browser" in done.stdout
