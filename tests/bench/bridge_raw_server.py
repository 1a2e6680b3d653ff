"""A program that takes whatever is posted, at once, and answers what Atropos would.

    python tests/bench/bridge_raw_server.py PORT

It imports only the standard library, and runs in a process of its own.
"""

import asyncio
import sys

ANSWERS = {
    b"/info": b'{"batch_size": 8, "max_token_len": 1000000}',
    b"/register-env": b'{"env_id": 0, "wandb_name": "bench_0", "starting_step": 0, "num_steps": 0}',
    b"/status-env": b'{"current_step": 0, "queue_size": 0, "self_queue_size": 0}',
    b"/disconnect-env": b'{"status": "success"}',
    b"/scored_data": b'{"status": "received"}',
}
READ_BYTES = 1 << 20


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Requests of one connection, until it ends."""
    try:
        while True:
            request, *headers = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            named = (line.lower().partition(b":") for line in headers)
            left = sum(int(value) for name, _, value in named if name == b"content-length")
            while left:
                left -= len(await reader.read(min(left, READ_BYTES)))
            answer = ANSWERS[request.split()[1]]
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            writer.write(head + b"Content-Length: %d\r\n\r\n%s" % (len(answer), answer))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    """Listen for ever."""
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), limit=4 * READ_BYTES)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
