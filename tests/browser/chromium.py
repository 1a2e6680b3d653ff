"""Debian's Chromium."""

from collections.abc import Callable

from tests.testbed import packages

CHROMIUM = "/usr/bin/chromium"


def ensure(say: Callable[[str], None]) -> None:
    """Install it if it is missing."""
    packages.install(["chromium"], say)
