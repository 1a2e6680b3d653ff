"""Writing files that others watch."""

from pathlib import Path


def write_if_changed(file: Path, text: str, *, mode: int = 0o644) -> None:
    """Replace the file in one move, only for new content: kube-proxy ends when its file changes.

    Makes the folder if it is missing.
    """
    if file.exists() and file.read_text() == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    partial.touch(mode=mode)
    partial.write_text(text)
    partial.replace(file)
