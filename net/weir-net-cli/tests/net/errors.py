"""What the host says of datagrams that it cannot use, and what it believes when told.

`unreachable`: protocols and ports nobody has. `flood`: how many errors come for many datagrams.
`redirect`: redirects from the gateway, from others, to others. `ggp`: echoes of protocol 3.
`routes`: updates of gateways, sound and not; `routes crowd`: of many, about many nets.
`silence`: that an echo request is answered by nobody. `pour`: requests that nobody waits for.
"""

import socket
import struct
import sys
import time

from bed import HOST, ICMP, OURS, UDP, Wire, address, echo, icmp, ip, say, udp

GGP = 3


def error(seen, sent):
    """An error and whether it quotes what was sent (RFC 792: the header and eight bytes; RFC 1122:
    as much as fits)."""
    for packet in seen:
        if packet.proto == ICMP and packet.type in (3, 11, 12):
            quoted = packet.data[8:]
            return packet.brief() | {"quotes": len(quoted) >= 28 and sent.startswith(quoted)}
    return None


def unreachable(wire):
    """One of each: few enough for the limit of errors to one host."""
    packets = {"protocol 253": ip(b"who has this?", proto=253, ident=1),
               "port 9": ip(udp(40000, 9, b"anybody?"), proto=UDP, ident=2)}
    return {name: error(wire.exchange(packet), packet) for name, packet in packets.items()}


def refused():
    """A connected socket of the kernel's learns that nobody has the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((HOST, 9))
        client.settimeout(20)
        client.send(b"anybody?")
        try:
            return client.recv(100).hex()
        except ConnectionRefusedError:
            return "ECONNREFUSED"
        except TimeoutError:
            return "nothing"


def flood(wire, count):
    begun, errors = time.monotonic(), 0
    for number in range(count // 100):
        for at in range(100):
            wire.send(ip(udp(1024 + number, 10000 + at), proto=UDP))
        errors += sum(packet.proto == ICMP and packet.type == 3 for packet in wire.settle())
    return {"sent": count, "errors": errors, "took_s": time.monotonic() - begun}


def redirect(wire):
    """Who may say so: the gateway in use, of a host that is far, naming another one near."""
    def said(gateway, source=OURS, far="192.0.2.5", origin=HOST, code=1):
        about = ip(echo(1, 1, b"to be redirected"), src=origin, dst=far)[:28]
        return ip(icmp(5, code, address(gateway) + about), src=source)

    cases = {
        "from another host": said("10.9.0.7", source="10.9.0.66"),
        "to a gateway that is far": said("192.0.2.1"),
        "to the host itself": said(HOST),
        "to all": said("10.9.0.255"),
        "about a host that is near": said("10.9.0.7", far="10.9.0.99"),
        "of a datagram of another": said("10.9.0.7", origin="10.9.0.50"),
        "of a code there is not": said("10.9.0.7", code=9),
    }
    answers = {name: [packet.brief() for packet in wire.exchange(packet)]
               for name, packet in cases.items()}
    if sys.argv[2:] == ["good"]:
        answers = {"good": [packet.brief() for packet in wire.exchange(said("10.9.0.7"))]}
    return answers


def update(sequence, nets):
    """A routing update: a group for each net of class B or C, with its distance."""
    groups = b"".join(bytes([distance, 1]) + bytes(map(int, net.split(".")))
                      for net, distance in nets.items())
    return struct.pack("!BBHBB", 12, 0, sequence, 0, len(nets)) + groups


def routes(wire):
    """Who announces which nets; then redirects about them, which only the gateway in use may send."""
    def said(payload, source):
        return [packet.brief() for packet in wire.exchange(ip(payload, proto=GGP, src=source))]

    if sys.argv[2:] == ["crowd"]:
        nets = [{f"192.{gateway}.{net}": net % 3 for net in range(200)} for gateway in range(40)]
        return [len(said(update(1, nets[gateway]), f"10.9.0.{100 + gateway}"))
                for gateway in range(40)]
    far = "128.5.7.1"
    about = ip(echo(1, 1, b"to be redirected"), src=HOST, dst=far)[:28]
    redirects = {source: ip(icmp(5, 1, address("10.9.0.9") + about), src=source)
                 for source in (OURS, "10.9.0.7", "10.9.0.8")}
    return {
        "far": said(update(1, {"128.5": 1, "192.5.7": 3}), "10.9.0.7"),
        "near": said(update(1, {"128.5": 0}), "10.9.0.8"),
        "stranger": said(update(1, {"128.5": 0}), "192.0.2.9"),
        "host itself": said(update(1, {"128.5": 0}), HOST),
        "cut": said(update(2, {"128.5": 0})[:-1], "10.9.0.7"),
        "old": said(update(0, {"128.6": 0}), "10.9.0.7"),
        "redirects": [wire.exchange(redirects[source]) for source in redirects],
    }


def ggp(wire):
    """RFC 823: echo is of type 8, its reply of type 0."""
    message = struct.pack("!BBH", 8, 0, 77)
    return [{"proto": packet.proto, "type": packet.data[0], "same": packet.data[1:4] == message[1:4],
             "bytes": len(packet.data)} if packet.proto == GGP else packet.brief()
            for packet in wire.exchange(ip(message, proto=GGP))]


def silence(wire):
    """Nobody answers, for half a second and more: there is no order of packets to tell it by."""
    for number in range(5):
        wire.send(ip(echo(1, number, b"anybody?")))
    packet = wire.receive(time.monotonic() + 0.7)
    return {"answered": packet is not None}


def pour(wire, count):
    """Echo requests as fast as they go, whether anybody takes them or not."""
    refused = 0
    for number in range(count):
        try:
            wire.send(ip(echo(2, number & 0xFFFF, bytes(1400))))
        except OSError:
            # The queue of the device is full.
            refused += 1
    return {"sent": count - refused}


def main():
    what = sys.argv[1]
    if what == "refused":
        return say(refused())
    wire = Wire()
    if what == "pour":
        return say(pour(wire, int(sys.argv[2])))
    if what == "flood":
        return say(flood(wire, int(sys.argv[2])))
    say({"unreachable": unreachable, "redirect": redirect, "ggp": ggp, "routes": routes,
         "silence": silence}[what](wire))


main()
