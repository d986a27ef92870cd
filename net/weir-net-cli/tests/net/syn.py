"""Sends requests for connections to the echo port from forged sources, which nobody completes.

syn.py COUNT
"""

import struct
import sys

import bed


def syn(source, port, sequence):
    head = struct.pack("!HHIIBBHHH", port, 7, sequence, 0, 5 << 4, 2, 65535, 0, 0)
    pseudo = bed.address(source) + bed.address(bed.HOST) + struct.pack("!BBH", 0, bed.TCP, len(head))
    total = bed.checksum(pseudo + head)
    return head[:16] + struct.pack("!HH", total, 0)


count = int(sys.argv[1])
wire = bed.Wire()
for at in range(count):
    source = f"10.9.0.{3 + at % 250}"
    packet = syn(source, 1024 + at, at * 7919)
    wire.send(bed.ip(packet, proto=bed.TCP, src=source, ident=at & 0xFFFF))
    if at % 100 == 99:
        wire.settle()
bed.say({"sent": count})
