"""The one error of this package."""


class ReleaseError(Exception):
    """Why nothing is released; the text says what to change."""
