"""What HttpServer adds to the scope of each request; other servers do not."""

from __future__ import annotations

STOPPING = "odradek.stopping"  # asyncio.Event: the stream should end now
ABORT = "odradek.abort"  # () -> None: closes the connection and drops what is buffered
