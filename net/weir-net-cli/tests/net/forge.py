"""Forges segments of a real connection to the echo port, which must go on; prints the
flags of the answer to the first.

The forger sees the numbers of the connection, as one beside the way would not: so each segment is as near
to right as it may be without being right.
"""

import socket
import struct
import time

import bed

FIN, SYN, RST, ACK = 1, 2, 4, 16
ECHO = 7


def segment(port, flags, sequence, acknowledgement, data=b"", window=1000):
    head = struct.pack("!HHIIBBHHH", port, ECHO, sequence & 0xFFFFFFFF,
                       acknowledgement & 0xFFFFFFFF, 5 << 4, flags, window, 0, 0)
    pseudo = bed.address(bed.OURS) + bed.address(bed.HOST)
    pseudo += struct.pack("!BBH", 0, bed.TCP, len(head) + len(data))
    total = bed.checksum(pseudo + head + data)
    return bed.ip(head[:16] + struct.pack("!HH", total, 0) + data, proto=bed.TCP)


def numbers(packets, port):
    """The numbers of the host's last segment to a port: its next byte, and the one it expects."""
    found = None
    for packet in packets:
        if packet.proto != bed.TCP:
            continue
        to, sequence, acknowledgement, offset, flags = struct.unpack("!HIIBB", packet.data[2:14])
        if to == port and not flags & RST:
            data = len(packet.data) - (offset >> 4) * 4
            found = sequence + data + (flags & SYN > 0) + (flags & FIN > 0), acknowledgement, flags
    return found


wire = bed.Wire()
line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
line.settimeout(bed.PATIENCE)
line.connect((bed.HOST, ECHO))
port = line.getsockname()[1]


def echoes(data):
    line.sendall(data)
    got = b""
    while len(got) < len(data):
        piece = line.recv(65536)
        if not piece:
            return False
        got += piece
    return got == data


assert echoes(b"before")
ours, expected, _ = numbers(wire.settle(), port)
games = {
    "reset-ahead": segment(port, RST, expected + 1, 0),
    "reset-far": segment(port, RST, expected + (1 << 30), 0),
    "reset-behind": segment(port, RST, expected - 1, 0),
    "request": segment(port, SYN, expected, 0),
    "request-far": segment(port, SYN, expected - (1 << 29), 0),
    "answer": segment(port, SYN | ACK, expected, ours),
    "blind-data": segment(port, ACK, expected, ours + (1 << 30), b"forged"),
    "blind-data-far": segment(port, ACK, expected + (1 << 30), ours, b"forged"),
    "end-without-acknowledgement": segment(port, FIN, expected, 0, b"forged"),
    "all-flags": segment(port, 63, expected, ours),
    "none": segment(port, 0, expected, ours, b"forged"),
}
# The first is answered. No other is within a second of it.
first, *others = games.values()
wire.send(first)
answer, until = None, time.monotonic() + bed.PATIENCE
while answer is None and (packet := wire.receive(until)):
    answer = numbers([packet], port)
# Whatever the host says, it has come no further.
assert answer and answer[1] == expected, f"{answer}"
for packet in others:
    wire.send(packet)
goes_on = echoes(b"after" * 1000)
line.close()
bed.say({"forged": len(games), "answer": answer[2], "goes_on": goes_on})
