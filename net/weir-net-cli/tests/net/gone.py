"""Clients that leave with a reset while bytes of theirs lie unread at the host. Prints how many left.

gone.py SERVICE COUNT    COUNT connections to the port of echo, http or telnet, all open at a time. Each
                         sends more than the service takes of a client that reads nothing, and leaves
                         once the host has acknowledged all of it
"""

import fcntl
import json
import os
import socket
import struct
import sys
import time

HOST = "10.9.0.2"
# Port and bytes. The host has 256 KiB for each direction of a connection: an echo fills one of them
# and leaves the rest in the other; HTTP and Telnet leave what is beyond their own buffers.
SERVICES = {
    "echo": (7, b"x" * (400 << 10)),
    "http": (80, b"GET /large HTTP/1.1\r\n\r\n" * 9000),
    "telnet": (23, b"a line\r\n" * 25000),
}
SIOCOUTQ = 0x5411
# How long anything is waited for, seconds.
PATIENCE = 40


def unacknowledged(line):
    return struct.unpack("i", fcntl.ioctl(line, SIOCOUTQ, b"\0" * 4))[0]


def client(port, data):
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.settimeout(PATIENCE)
    line.connect((HOST, port))
    line.sendall(data)
    until = time.monotonic() + PATIENCE
    while unacknowledged(line):
        if time.monotonic() > until:
            sys.exit(f"{unacknowledged(line)} bytes are not acknowledged")
        os.sched_yield()
    return line


lines = [client(*SERVICES[sys.argv[1]]) for _ in range(int(sys.argv[2]))]
for line in lines:
    line.close()
json.dump({"left": len(lines)}, sys.stdout)
print()
