"""Connections to the host, many at once. Prints what came back.

crowd.py echo COUNT BYTES    COUNT connections to the echo port, all open before the first byte is
                             sent; each sends BYTES that no other sends, and checks every byte
crowd.py mute COUNT SECONDS  COUNT connections to the port of characters that never read; meanwhile one
                             to the echo port, whose bytes come back; says how many of the mute are open
crowd.py slow COUNT TRIES    COUNT connections to the port of HTTP that send half a head; says how often
                             another one gets the file /f, of so many tries
"""

import json
import resource
import selectors
import socket
import sys
import time

HOST, ECHO, CHARGEN, HTTP = "10.9.0.2", 7, 19, 80
# How long anything is waited for, seconds.
PATIENCE = 40


def connect(port, buffer=None):
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if buffer:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    line.settimeout(PATIENCE)
    line.connect((HOST, port))
    return line


def contents(number, count):
    block = b"".join((number * 7919 + at * 104729).to_bytes(8, "big") for at in range(64))
    return (block * (count // len(block) + 1))[:count]


def exchange(lines, size):
    """Sends on all of these connections, and counts those on which the same came back."""
    wait = selectors.DefaultSelector()
    state = {}
    for number, line in enumerate(lines):
        line.setblocking(False)
        state[line] = [contents(number, size), 0, bytearray()]
        wait.register(line, selectors.EVENT_READ | selectors.EVENT_WRITE)
    until, right = time.monotonic() + PATIENCE, 0
    while wait.get_map():
        ready = wait.select(max(0, until - time.monotonic()))
        if not ready:
            break
        for key, events in ready:
            line = key.fileobj
            sent, at, got = state[line]
            if events & selectors.EVENT_WRITE:
                state[line][1] = at = at + line.send(sent[at:at + 65536])
                if at == len(sent):
                    wait.modify(line, selectors.EVENT_READ)
            if events & selectors.EVENT_READ:
                piece = line.recv(65536)
                got += piece
                if not piece or len(got) >= len(sent):
                    wait.unregister(line)
                    right += got == sent
    return right


def echo(count, size):
    lines = [connect(ECHO) for _ in range(count)]
    right = exchange(lines, size)
    # All are open until the last has its bytes.
    for line in lines:
        line.close()
    return {"right": right, "wrong": count - right}


def mute(count, seconds):
    lines = [connect(CHARGEN, 4096) for _ in range(count)]
    begun = time.monotonic()
    rounds = 0
    # Longer than a stall lasts that is counted.
    while rounds == 0 or time.monotonic() < begun + seconds:
        line = connect(ECHO)
        if not exchange([line], 1_000_000):
            return {"echo": "differs", "rounds": rounds}
        line.close()
        rounds += 1
    opened = 0
    for line in lines:
        line.setblocking(False)
        # What came first lies there; nothing says that the connection is over.
        opened += line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1
    return {"echo": "same", "rounds": rounds, "open": opened}


def slow(count, tries):
    lines = []
    for _ in range(count):
        lines.append(connect(HTTP))
        lines[-1].sendall(b"GET /f HTTP/1.0\r\nX: ")
    served = 0
    for _ in range(tries):
        line = connect(HTTP)
        line.sendall(b"GET /f HTTP/1.0\r\n\r\n")
        try:
            got = b"".join(iter(lambda: line.recv(65536), b""))
            served += got.endswith(b"contents")
        except OSError:
            pass
        line.close()
    return {"served": served, "tries": tries}


resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
game, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
json.dump({"echo": echo, "mute": mute, "slow": slow}[game](count, size), sys.stdout)
print()
