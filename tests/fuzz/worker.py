"""Runs one target under atheris: `python -m tests.fuzz.worker TARGET [libFuzzer's arguments]`.

Runs in an environment of its own (environment.py).
"""

import sys

import atheris  # type: ignore[import-untyped]

# The checks too: they read by hand what the operator leaves to libraries, which show no coverage.
with atheris.instrument_imports(include=["episode_operator", "tests.fuzz.checks"]):
    from tests.fuzz.targets import TARGETS


def main(name: str, *arguments: str) -> None:
    """Fuzzes until libFuzzer ends the process."""
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name].check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
