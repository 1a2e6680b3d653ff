"""The runner's journal, in memory."""


class JournalStore:
    """Keeps entries in their order, each once."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    async def journal_append(self, index: int, data: bytes) -> None:
        """Append the next entry."""
        assert index == len(self.entries), "a gap, or an entry written twice"
        self.entries.append(data)

    async def journal_read(self) -> list[bytes]:
        """All entries, in order."""
        return list(self.entries)
