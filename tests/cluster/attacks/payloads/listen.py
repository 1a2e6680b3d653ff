"""Answers on a port, by TCP and UDP, to whoever asks: what a sandbox must not reach."""

import socket
import sys
import threading

PORT = int(sys.argv[1])


def answer_datagrams() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        server.bind(("::", PORT))
        while True:
            question, sender = server.recvfrom(2000)
            server.sendto(question, sender)


threading.Thread(target=answer_datagrams, daemon=True).start()
with socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    print("listening", flush=True)
    while True:
        server.accept()[0].close()
