"""What the scripts share: packets as bytes onto the device and off it, and how to know that
nothing more will come.

Packets go through a packet socket, past the kernel's own stack: anything at all can be sent. What
comes from the host is checked here by hand before anybody looks at it.

Nothing is waited for by the clock where the order of packets can tell: behind the packets of a
game goes a request whose answer says that everything before it was dealt with (`Wire.settle`).
"""

import json
import random
import select
import socket
import struct
import sys
import time

OURS, HOST = "10.9.0.1", "10.9.0.2"
ICMP, TCP, UDP = 1, 6, 17
ETH_P_ALL, ETH_P_IP = 3, 0x0800
PACKET_OUTGOING, SO_RCVBUFFORCE = 4, 33
# How long anything is waited for, seconds.
PATIENCE = 20


def checksum(data):
    """RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def address(text):
    return socket.inet_aton(text)


def ip(payload=b"", proto=ICMP, src=OURS, dst=HOST, ident=0, mf=False, offset=0, df=False, ttl=64,
       tos=0, options=b"", version=4, ihl=None, length=None, check=None):
    """A packet, sound unless something else is asked for; `offset` is in bytes."""
    ihl = 5 + len(options) // 4 if ihl is None else ihl
    length = 20 + len(options) + len(payload) if length is None else length
    flags = df << 14 | mf << 13 | offset >> 3

    def header(total):
        return struct.pack("!BBHHHBBH4s4s", version << 4 | ihl, tos, length & 0xFFFF, ident, flags,
                           ttl, proto, total, address(src), address(dst)) + options

    return header(checksum(header(0)) if check is None else check) + payload


def icmp(kind, code, rest, check=None):
    """A message whose header's other four bytes and data are `rest`."""
    total = checksum(struct.pack("!BBH", kind, code, 0) + rest) if check is None else check
    return struct.pack("!BBH", kind, code, total) + rest


def echo(ident, sequence, data):
    return icmp(8, 0, struct.pack("!HH", ident, sequence) + data)


def udp(source, port, data=b"", src=OURS, dst=HOST):
    head = struct.pack("!HHH", source, port, 8 + len(data))
    pseudo = address(src) + address(dst) + struct.pack("!BBH", 0, UDP, 8 + len(data))
    return head + struct.pack("!H", checksum(pseudo + head + b"\0\0" + data) or 0xFFFF) + data


class Packet:
    """A datagram from the host, put together where it came in fragments, its header and its
    checksums verified."""

    def __init__(self, data):
        version_ihl, self.tos, length, self.ident, flags, self.ttl, self.proto, _, src, dst = \
            struct.unpack("!BBHHHBBH4s4s", data[:20])
        self.src, self.dst = socket.inet_ntoa(src), socket.inet_ntoa(dst)
        header = (version_ihl & 15) * 4
        assert version_ihl >> 4 == 4 and header >= 20, f"bad header {data[:20].hex()}"
        assert length == len(data), f"length {length} of {len(data)}"
        assert checksum(data[:header]) == 0, f"bad header checksum {data[:header].hex()}"
        self.more, self.offset = bool(flags & 0x2000), (flags & 0x1FFF) * 8
        self.options, self.data = data[20:header], data[header:]

    def verify(self):
        if self.proto == ICMP:
            assert len(self.data) >= 8 and checksum(self.data) == 0, f"bad ICMP {self.data.hex()}"
            self.type, self.code = self.data[:2]

    def brief(self):
        """For JSON."""
        seen = {"proto": self.proto, "dst": self.dst, "bytes": len(self.data)}
        if self.proto == ICMP:
            seen |= {"type": self.type, "code": self.code}
        return seen


class Wire:
    """The device, from the kernel's side."""

    def __init__(self, device="weir0", seed=1):
        self.device = device
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        # The answers to a whole batch must fit.
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        self.socket.bind((device, ETH_P_ALL))
        self.random = random.Random(seed)
        self.fragments = {}
        self.settled = 0

    def send(self, data):
        self.socket.sendto(data, (self.device, ETH_P_IP))

    def receive(self, until):
        """The next datagram from the host, by that time; None if there is none."""
        while True:
            left = until - time.monotonic()
            if left < 0 or not select.select([self.socket], [], [], left)[0]:
                return None
            data, sender = self.socket.recvfrom(1 << 16)
            if sender[2] == PACKET_OUTGOING:
                continue
            packet = self.whole(Packet(data))
            if packet:
                packet.verify()
                return packet

    def whole(self, packet):
        """Puts datagrams together; the host sends fragments that neither overlap nor miss."""
        if not packet.more and not packet.offset:
            return packet
        key = (packet.src, packet.dst, packet.proto, packet.ident)
        parts = self.fragments.setdefault(key, {})
        assert packet.offset not in parts, f"two fragments at {packet.offset}"
        parts[packet.offset] = packet
        end = 0
        while end in parts and parts[end].more:
            assert len(parts[end].data) % 8 == 0, "a fragment that ends within eight bytes"
            end += len(parts[end].data)
        if end not in parts:
            return None
        del self.fragments[key]
        data = b"".join(parts[at].data for at in sorted(parts))
        assert len(data) == end + len(parts[end].data), "fragments overlap"
        packet.data = data
        return packet

    def settle(self):
        """Waits until everything sent so far was dealt with; what else came meanwhile."""
        self.settled += 1
        mark = b"settled" + struct.pack("!Q", self.settled) + self.random.randbytes(8)
        self.send(ip(echo(0xBED, self.settled & 0xFFFF, mark)))
        until, seen = time.monotonic() + PATIENCE, []
        while packet := self.receive(until):
            if packet.proto == ICMP and packet.type == 0 and packet.data[8:] == mark:
                return seen
            seen.append(packet)
        raise TimeoutError(f"an echo request of number {self.settled} was not answered")

    def exchange(self, *packets):
        """Sends packets and returns what came for them."""
        for packet in packets:
            self.send(packet)
        return self.settle()


def many(packets):
    """For JSON: each kind of packet once, with how many there were."""
    kinds = {}
    for packet in packets:
        key = json.dumps(packet.brief())
        kinds[key] = kinds.get(key, 0) + 1
    return [json.loads(key) | {"times": times} for key, times in kinds.items()]


def say(value):
    """The answer to who started the script."""
    json.dump(value, sys.stdout)
    print()
