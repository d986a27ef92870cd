"""The fragment games once more, by scapy: its packets, its idea of fragments, its reading of answers.

Prints for each game how many echo replies came, and how many of them with the right data and sums.
"""

import json
import logging
import sys
import threading
import time

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
from scapy.all import ICMP, IP, TCP, AsyncSniffer, Raw, conf, fragment, raw  # noqa: E402

HOST = "10.9.0.2"
DATA = bytes(at * 5 & 255 for at in range(4000))

conf.verb = 0


def request(ident):
    return IP(dst=HOST, id=ident) / ICMP(type=8, id=ident, seq=1) / Raw(DATA)


def piece(whole, start, end, forged=False):
    """Bytes of the payload as a fragment, under the header of the whole."""
    payload = raw(whole[IP].payload)
    data = bytes(255 - byte for byte in payload[start:end]) if forged else payload[start:end]
    flags = 1 if end < len(payload) else 0
    head = IP(dst=HOST, id=whole.id, proto=1, flags=flags, frag=start // 8)
    return head / Raw(data)


def games():
    whole = request(101)
    yield "in order", fragment(whole, fragsize=1000)
    whole = request(102)
    yield "reverse", fragment(whole, fragsize=1000)[::-1]
    whole = request(103)
    pieces = fragment(whole, fragsize=1000)
    yield "each twice", [copy for part in pieces[:-1] for copy in (part, part)] + pieces[-1:]
    whole = request(104)
    pieces = [piece(whole, 0, 1600), piece(whole, 1592, 3200), piece(whole, 3200, 4008)]
    yield "eight bytes overlap", pieces
    whole = request(105)
    forged, true = piece(whole, 1600, 3200, forged=True), piece(whole, 1600, 3200)
    yield "forged first", [piece(whole, 0, 1600), forged, true, piece(whole, 3200, 4008)]
    whole = request(106)
    forged, true = piece(whole, 1600, 3200, forged=True), piece(whole, 1600, 3200)
    yield "forged second", [piece(whole, 0, 1600), true, forged, piece(whole, 3200, 4008)]
    whole = request(107)
    yield "first of eight bytes", [piece(whole, 0, 8), piece(whole, 8, 4008)]
    head = IP(dst=HOST, id=108, flags=1)
    yield "tiny first of TCP", [head / Raw(raw(TCP(dport=80))[:16])]
    whole = request(109)
    yield "never whole", fragment(whole, fragsize=1000)[:-1]
    whole = request(110)
    beyond = IP(dst=HOST, id=110, proto=1, frag=8189) / Raw(bytes(400))
    yield "beyond the longest", fragment(whole, fragsize=1000)[:-1] + [beyond]


def is_right(answer):
    """By scapy's own sums: made anew, they are those that came."""
    again = answer.copy()
    del again[IP].chksum, again[ICMP].chksum
    again = IP(raw(again))
    sums = (again[IP].chksum, again[ICMP].chksum) == (answer[IP].chksum, answer[ICMP].chksum)
    return sums and raw(answer[ICMP].payload) == DATA


def play(line, packets, ident):
    """Answers to one game: the echo that follows it is answered after them."""
    seen, listens = [], threading.Event()
    sniffer = AsyncSniffer(
        iface="weir0",
        filter="icmp and src host " + HOST,
        prn=lambda packet: seen.append(packet[IP]),
        store=False,
        started_callback=listens.set,
    )
    sniffer.start()
    # It calls itself running before it has its socket.
    if not listens.wait(10):
        sys.exit("the sniffer did not begin to listen")
    until = time.monotonic() + 10
    for packet in packets:
        line.send(packet)
    last = 60000 + ident
    line.send(IP(dst=HOST) / ICMP(type=8, id=last, seq=1))
    while time.monotonic() < until:
        if any(p.haslayer(ICMP) and p[ICMP].type == 0 and p[ICMP].id == last for p in seen):
            break
        time.sleep(0.01)
    else:
        sys.exit("the echo after the game was not answered")
    sniffer.stop()
    return [bytes(raw(p)) for p in seen if not (p.haslayer(ICMP) and p[ICMP].id == last)]


def whole_of(packets):
    """Answers, put together where they came in fragments."""
    from scapy.all import defragment

    return [IP(raw(packet)) for packet in defragment([IP(packet) for packet in packets])]


def main():
    line = conf.L3socket(iface="weir0")
    outcomes = {}
    for at, (name, packets) in enumerate(games()):
        answers = whole_of(play(line, packets, at))
        echoes = [a for a in answers if a.haslayer(ICMP) and a[ICMP].type == 0]
        outcomes[name] = {
            "answered": len(echoes),
            "right": sum(map(is_right, echoes)),
            "others": len(answers) - len(echoes),
        }
    print(json.dumps(outcomes))


main()
