"""Finds the Chromium that the tests of the page use: `python scripts/chromium.py` prints its path.

`sh scripts/setup.sh browser` installs one where it is missing. FRESHLINE_CHROMIUM names another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
APPLICATIONS = ("/Applications/Chromium.app/Contents/MacOS/Chromium", "/opt/homebrew/bin/chromium")
MISSING = (
    "the tests of the page need Chromium: run `sh scripts/setup.sh browser`, or set FRESHLINE_CHROMIUM to its path"
)


@cache
def find() -> str:
    """Return the path of a Chromium that starts."""
    for path in _candidates():
        if _starts(path):
            return path
    raise FileNotFoundError(MISSING)


def _candidates() -> Iterator[str]:
    named = os.environ.get("FRESHLINE_CHROMIUM")
    if named:
        yield named
        return
    yield from filter(None, map(shutil.which, NAMES))
    yield from (path for path in APPLICATIONS if Path(path).exists())
    yield from _of_playwright()


def _of_playwright() -> Iterator[str]:
    """Yield the browsers that `playwright install` has downloaded, the newest first."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or cache_home / "ms-playwright")
    for pattern in ("chromium_headless_shell-*/*/*headless*shell", "chromium-*/*/chrome"):
        yield from (str(path) for path in sorted(home.glob(pattern), reverse=True))


def _starts(path: str) -> bool:
    """Return whether the program answers: a package of Ubuntu is a stub that may not."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return said.returncode == 0 and "Chrom" in said.stdout


def main() -> int:
    """Print the path, or say what to do."""
    try:
        print(find())
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
