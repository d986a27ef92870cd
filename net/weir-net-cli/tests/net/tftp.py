"""Plays with a server of TFTP, and prints what came of it.

tftp.py flood ADDRESS PORT COUNT    requests of which nothing more is heard
tftp.py strangers ADDRESS PORT      a transfer that others disturb
tftp.py damaged ADDRESS PORT        requests whose checksum is wrong
"""

import json
import select
import socket
import struct
import sys

import bed

READ = struct.pack("!H", 1) + b"file.bin\0octet\0"
PATIENCE = 20


def open_socket():
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.settimeout(PATIENCE)
    return line


def flood(server, count):
    # Each request comes from a port of its own, which stays open: nobody says that it is not there.
    lines = [open_socket() for _ in range(count)]
    for line in lines:
        line.sendto(READ, server)
    return {"asked": len(lines)}


def block(line):
    """The next block, and who sent it."""
    data, sender = line.recvfrom(65536)
    kind, number = struct.unpack("!HH", data[:4])
    assert kind == 3, data[:40]
    return number, data[4:], sender


def strangers(server):
    line, stranger = open_socket(), open_socket()
    line.sendto(READ, server)
    line.sendto(READ, server)
    number, data, sender = block(line)
    # A stranger acknowledges, ends the transfer, and sends nonsense, from another port.
    stranger.sendto(struct.pack("!HH", 4, 1), sender)
    answer, _ = stranger.recvfrom(65536)
    kind, code = struct.unpack("!HH", answer[:4])
    assert kind == 5, answer
    stranger.sendto(struct.pack("!HH", 5, 0) + b"end\0", sender)
    nonsense = [b"", b"\0", b"\xff" * 60, b"\0\x03\0\x01data"]
    for bytes_ in nonsense:
        stranger.sendto(bytes_, server)
    answers = 0
    while answers < len(nonsense) and select.select([stranger], [], [], PATIENCE)[0]:
        answer = stranger.recv(65536)
        assert answer[:4] == struct.pack("!HH", 5, 4), answer
        answers += 1
    if server[0] == bed.HOST:
        # A fragment of a block was lost, and a host was away for a moment: neither is the end.
        ports = struct.pack("!HHHH", sender[1], line.getsockname()[1], 520, 0)
        block_ = bytes(4) + bed.ip(ports, proto=bed.UDP, src=bed.HOST, dst=bed.OURS)
        bed.Wire().exchange(*[bed.ip(bed.icmp(kind, 1, block_)) for kind in (11, 3)])
    got, senders = data, {sender}
    while len(data) == 512:
        line.sendto(struct.pack("!HH", 4, number), sender)
        wanted = number + 1
        number, data, seen = block(line)
        senders.add(seen)
        if number == wanted:
            got += data
    line.sendto(struct.pack("!HH", 4, number), sender)
    return {
        "stranger": code,
        "bytes": len(got),
        "nonsense_answers": answers,
        "second_streams": len(senders) - 1,
    }


def damaged(server):
    wire = bed.Wire()
    bad = bytearray(bed.udp(5000, server[1], READ))
    bad[6] ^= 0x5A
    seen = wire.exchange(*[bed.ip(bytes(bad), proto=bed.UDP, ident=at) for at in range(5)])
    return {"answers": sum(packet.proto == bed.UDP for packet in seen)}


what, server = sys.argv[1], (sys.argv[2], int(sys.argv[3]))
games = {"strangers": strangers, "damaged": damaged}
print(json.dumps(flood(server, int(sys.argv[4])) if what == "flood" else games[what](server)))
