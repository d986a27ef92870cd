"""Packets that no host should send, and what comes back for each.

`malformed`, `routes`, `sound`, `icmp`, `sources` and `destinations` print how many packets of each kind were sent and what was
answered; `garbage` sends random bytes and changed packets, as many as it is told to.
"""

import random
import struct
import sys

from bed import HOST, Wire, address, checksum, echo, icmp, ip, many, say, udp

# How many packets of each kind.
EACH = 3


def request(**fields):
    return ip(echo(1, 1, b"hostile packet!!"), **fields)


def malformed():
    """Kinds of packets that are dropped, by the reason that is counted."""
    sound = request()
    wrong = struct.unpack("!H", sound[10:12])[0] ^ 1
    return {
        "short": [sound[:1], sound[:10], sound[:19]],
        "version": [request(version=version) for version in (0, 5, 15)],
        "ipv6": [request(version=6), b"\x60" + bytes(39)],
        "header-length": [request(ihl=ihl) for ihl in (0, 4, 15)],
        "total-length": [request(length=length) for length in (0, 19, len(sound) + 1)],
        "header-checksum": [request(check=check) for check in (0, 0xFFFF, wrong)],
        "bad-options": [request(options=bytes.fromhex(options)) for options in (
            "07000000",          # record route of no length
            "0701ffff",          # shorter than its own header
            "07ff0400",          # longer than the header
        )],
    }


def routes():
    """Source routes, one of each: few enough for the limit of errors to one host."""
    return {name: [request(options=bytes.fromhex(options))] for name, options in (
        ("loose, by way of 10.9.0.9", "8307040a09000900"),
        ("strict", "8907040a09000900"),
        ("loose, used up", "8307080a09000900"),
    )}


def sound():
    """Kinds of packets that look odd and are right."""
    return {
        "more bytes than the packet": request() + b"padding",
        "options that are not known": request(options=bytes.fromhex("9e04abcd")),
        "no operation, end": request(options=bytes.fromhex("01010100")),
        "time to live 0": request(ttl=0),
        "time to live 1": request(ttl=1),
        "type of service": request(tos=0x1C),
        "do not fragment": request(df=True),
    }


def unsound_icmp():
    """Messages that nothing answers."""
    whole = echo(1, 1, b"data")
    return [ip(whole[:length]) for length in (0, 1, 4, 7)] + [
        ip(icmp(8, 0, whole[4:], check=0x1234)),
        ip(icmp(13, 0, b"\0\0")),
        ip(icmp(255, 0, bytes(8))),
        # A reply nobody asked for, and errors: never answered by errors (RFC 1122, 3.2.2).
        ip(icmp(0, 0, bytes(8))),
        ip(icmp(3, 3, bytes(4) + request()[:28])),
        ip(icmp(3, 3, bytes(4) + b"\x45")),
        ip(icmp(11, 0, bytes(4) + request()[:28])),
        ip(icmp(12, 0, b"\xff" + bytes(3) + request()[:28])),
        ip(icmp(4, 0, bytes(4) + request()[:28])),
        ip(icmp(5, 1, bytes(3))),
    ]


FORGED = [HOST, "10.9.0.255", "10.9.0.0", "255.255.255.255", "224.0.0.1", "239.1.2.3", "0.0.0.0",
          "0.1.2.3", "127.0.0.1", "240.0.0.1"]


def sources():
    """From addresses that are no host's: an echo request, a datagram to a closed port, an unknown
    protocol."""
    return {source: [request(src=source), ip(udp(9, 9, src=source), proto=17, src=source),
                     ip(b"?" * 8, proto=253, src=source)] for source in FORGED}


def destinations():
    """To all hosts, groups, and another host."""
    kinds = {"10.9.0.255": "broadcast", "10.9.0.0": "broadcast", "255.255.255.255": "broadcast",
             "224.0.0.1": "broadcast", "239.1.2.3": "broadcast", "10.9.0.77": "not-for-us",
             "192.0.2.1": "not-for-us"}
    return {to: [request(dst=to), ip(udp(9, 9, dst=to), proto=17, dst=to),
                 ip(b"?" * 8, proto=253, dst=to)] for to in kinds}


def garbage(wire, count):
    """Random bytes, and sound packets with some bytes changed; then an honest request."""
    chance = random.Random(5)
    models = [request(), ip(udp(7, 9, b"data"), proto=17), request(options=b"\x07\x0b\x04" + bytes(9)),
              ip(icmp(13, 0, bytes(16))), ip(b"x" * 64, mf=True, ident=7),
              ip(b"y" * 64, offset=64, ident=7), ip(icmp(5, 1, address("10.9.0.9") + request()[:28])),
              ip(b"\x08\0\0\0" + bytes(8), proto=3)]
    for number in range(count):
        if number % 4 == 0:
            packet = chance.randbytes(chance.randrange(1, 200))
        else:
            packet = bytearray(chance.choice(models))
            for _ in range(chance.randrange(1, 6)):
                packet[chance.randrange(len(packet))] = chance.randrange(256)
            # Most get past the check of the header, so that what is behind it is tried as well.
            header = (packet[0] & 15) * 4
            if number % 4 != 1 and 20 <= header <= len(packet):
                packet[10:12] = b"\0\0"
                packet[10:12] = struct.pack("!H", checksum(bytes(packet[:header])))
        wire.send(bytes(packet))
        if number % 100 == 99:
            wire.settle()
    return {"sent": count}


def outcomes(wire, kinds, times):
    """For each kind how many packets were sent, and what came back."""
    told = {}
    for kind, packets in kinds.items():
        packets = packets if isinstance(packets, list) else [packets]
        sent = [packet for packet in packets for _ in range(times)]
        told[kind] = {"sent": len(sent),
                      "answers": many(wire.exchange(*sent))}
    return told


def main():
    wire, what = Wire(), sys.argv[1]
    if what == "garbage":
        return say(garbage(wire, int(sys.argv[2])))
    kinds = {"malformed": malformed, "routes": routes, "sound": sound, "sources": sources,
             "destinations": destinations, "icmp": lambda: {"icmp": unsound_icmp()}}
    say(outcomes(wire, kinds[what](), 1 if what == "routes" else EACH))


main()
