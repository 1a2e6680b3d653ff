"""What both clients have in common."""

from typing import Final

import httpx

NO_KEEP_ALIVE: Final = httpx.Limits(max_keepalive_connections=0)
"""Minutes lie between two requests. Servers close idle connections, and not every proxy tells."""
