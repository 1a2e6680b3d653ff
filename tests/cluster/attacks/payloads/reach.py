"""Tries to reach targets, given as JSON: name -> [protocol, host, port]; answers the same way.

Prints name -> "open" or why not, as JSON. Protocols: tcp connects, udp wants any answer to a
question for DNS, link sends that question to every neighbour by IPv6, name resolves the host.
"""

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECONDS = 1.5
QUESTION = (
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    b"\x0akubernetes\x07default\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01"
)


def asked(family: socket.AddressFamily, address: tuple[str | int, ...]) -> str:
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(SECONDS)
        client.sendto(QUESTION, address)
        client.recvfrom(2000)
    return "open"


def neighbours(port: int) -> str:
    for line in Path("/proc/net/if_inet6").read_text().splitlines():
        _, index, _, _, _, name = line.split()
        if name != "lo":
            return asked(socket.AF_INET6, ("ff02::1", port, 0, int(index, 16)))
    return "no IPv6"


def reach(protocol: str, host: str, port: int) -> str:
    try:
        match protocol:
            case "tcp":
                socket.create_connection((host, port), timeout=SECONDS).close()
                return "open"
            case "udp":
                return asked(socket.AF_INET, (host, port))
            case "link":
                return neighbours(port)
            case _:
                return f"open: {socket.gethostbyname(host)}"
    except OSError as error:
        return str(error)


targets = json.loads(sys.argv[1])
with ThreadPoolExecutor(len(targets)) as pool:
    found = pool.map(lambda target: reach(*target), targets.values())
    print(json.dumps(dict(zip(targets, found, strict=True))))
