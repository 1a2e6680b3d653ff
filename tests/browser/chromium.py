"""Debian's Chromium."""

from collections.abc import Callable
from pathlib import Path

from tests.testbed import packages

CHROMIUM = "/usr/bin/chromium"


def ensure(say: Callable[[str], None]) -> None:
    """Install it if it is missing; hosted runners of Ubuntu have one that is no package."""
    if not Path(CHROMIUM).exists():
        packages.install(["chromium"], say)
