"""A wire with somebody on it who sends anything by ARP: what the host answers.

`arp.py DEVICE crowd`: questions for the host and for others, from many made-up senders, and answers
that nobody asked for. `arp.py DEVICE garbage COUNT SEED`: messages of random bytes.
"""

import random
import socket
import struct
import sys
import time

from bed import HOST, OURS, PATIENCE, address, say

ETH_P_ARP = 0x0806
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 263, 1, 1
ALL = b"\xff" * 6
EVIL = b"\x02\x66\x66\x66\x66\x66"


class Wire:
    def __init__(self, device):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP))
        self.socket.bind((device, ETH_P_ARP))
        # The answers go to an address that no device has.
        everything = struct.pack("IHH8s", socket.if_nametoindex(device), PACKET_MR_PROMISC, 0, b"")
        self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, everything)

    def send(self, body, to=ALL):
        self.socket.send(to + EVIL + struct.pack("!H", ETH_P_ARP) + body)

    def answers(self, mark):
        """The answers to what was sent so far, by the address that they tell: behind it goes a
        question of a sender whose answer says that everything before it was dealt with."""
        self.send(message(1, mark, HOST))
        until, seen = time.monotonic() + PATIENCE, []
        while True:
            self.socket.settimeout(max(until - time.monotonic(), 0.01))
            frame = self.socket.recv(2048)
            body = frame[14:]
            if len(body) < 28 or frame[6:12] == EVIL or body[6:8] != b"\0\2":
                continue
            told, asked = socket.inet_ntoa(body[14:18]), socket.inet_ntoa(body[24:28])
            if asked == mark:
                return seen
            seen.append([told, asked])


def message(operation, sender, target, at=EVIL):
    return struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + at + address(sender) + bytes(6) \
        + address(target)


def crowd(wire):
    for host in range(3000):
        wire.send(message(1, f"10.9.{1 + host // 250}.{1 + host % 250}", HOST))
        if host % 50 == 0:
            # What a host has asked for is known to it, and what it has not it must not believe.
            wire.send(message(2, OURS, HOST))
            wire.send(message(1, f"10.9.0.{100 + host // 50}", OURS))
            wire.send(message(1, f"10.9.0.{100 + host // 50}", "10.9.0.3"))
    return wire.answers("10.9.0.99")


def garbage(wire, count, seed):
    numbers = random.Random(seed)
    sound = message(1, "10.9.0.98", HOST)
    for _ in range(count):
        body = bytearray(sound)
        for _ in range(numbers.randrange(1, 4)):
            body[numbers.randrange(8)] = numbers.randrange(256)
        wire.send(bytes(body[:numbers.randrange(29)]))
        wire.send(numbers.randbytes(numbers.randrange(60)))
    return wire.answers("10.9.0.99")


wire = Wire(sys.argv[1])
if sys.argv[2] == "crowd":
    answers = crowd(wire)
else:
    answers = garbage(wire, int(sys.argv[3]), int(sys.argv[4]))
say({"told": sorted({told for told, _ in answers}), "answers": len(answers)})
