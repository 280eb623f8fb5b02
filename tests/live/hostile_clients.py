#!/usr/bin/env python3
"""Clients that hold, break and flood `commlens serve`: ten thousand connections one after another, then 900 that send a
header byte by byte. It answers others meanwhile, and keeps no memory and no files of them. Prints what it measured."""

import os
import socket
import struct
import sys
import time
from pathlib import Path

from served_job import COMMLENS, Workplace, fetched, free_port, skip, until

ATTEMPTS = 10_000
SLOW = 900
MOST_KIB = 32 << 10  # of memory that the server may gain: 16 KiB of each attempt would be 160 MB
WORDS = [
    b"",
    b"GET / HTTP/1.1\r\nHost: loc",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\0\xff",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10_000 + b"\r\n\r\n",
]


class Server:
    def __init__(self, process, port):
        self.process = process
        self.port = port
        self.slowest = 0.0

    def ask(self):
        began = time.monotonic()
        assert "commlens_build_info" in fetched(f"http://127.0.0.1:{self.port}/metrics")
        self.slowest = max(self.slowest, time.monotonic() - began)

    def answers(self):
        self.ask()
        return True

    def memory_kib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connected(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


def attempt(server, words):
    with server.connected() as client:
        # Broken off, so that the kernel keeps nothing of it for a minute.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            client.sendall(words)
        except ConnectionError:
            pass  # it was turned away before


def flood(server):
    for count in range(ATTEMPTS):
        attempt(server, WORDS[count % len(WORDS)])
        if count % 100 == 0:
            server.ask()


def goes_on(client):
    try:
        client.sendall(b"x")
    except OSError:
        return False
    return True


def hold(server):
    """How many files the server had while it was held."""
    clients = [server.connected() for _ in range(SLOW)]
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
    server.ask()
    files = server.files()

    def are_left():
        server.ask()
        time.sleep(0.4)
        return not any([goes_on(client) for client in clients])

    until(are_left, "slow clients are left", 90)
    for client in clients:
        client.close()
    return files


def main():
    if not (Path(COMMLENS).parent / "libcommlens-live.so").exists():
        skip("libcommlens-live.so was not built")
    with Workplace() as workplace:
        port = free_port()
        none = str(workplace.path / "none")
        words = [COMMLENS, "serve", none, "--listen", f"127.0.0.1:{port}", "--interval", "200ms"]
        server = Server(workplace.start("serve", words), port)
        until(server.answers, "the server answers")
        files = server.files()
        memory = server.memory_kib()
        server.slowest = 0.0
        flood(server)
        until(lambda: server.files() <= files, "the files of the attempts are closed")
        print(f"{ATTEMPTS} attempts: {server.memory_kib() - memory} KiB more, slowest answer {server.slowest * 1e3:.1f} ms")
        server.slowest = 0.0
        held = hold(server)
        assert held >= SLOW, held
        until(lambda: server.files() <= files, "the files of slow clients are closed")
        print(f"{SLOW} slow clients: {server.memory_kib() - memory} KiB more, slowest answer {server.slowest * 1e3:.1f} ms")
        assert server.memory_kib() - memory < MOST_KIB
        assert server.process.poll() is None
    return 0


if __name__ == "__main__":
    sys.exit(main())
