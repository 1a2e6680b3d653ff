"""Removes every program of the image but Python, and itself."""

from pathlib import Path

for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"):
    for program in Path(folder).iterdir():
        if not program.name.startswith("python") and not program.is_dir():
            program.unlink()
Path(__file__).unlink()
