"""A peer of the kernel's for user datagrams of the host.

udp_peer.py serve PORT COUNT   binds a port, says so, and sends COUNT datagrams back to where they came from
udp_peer.py damaged PORT       sends datagrams to a port of the host past the kernel: sound, with a wrong checksum,
                               with none, with impossible lengths
udp_peer.py closed PORT        sends to a port of the host that nobody has, and prints what the kernel says
"""

import socket
import struct
import sys

import bed

game, port = sys.argv[1], int(sys.argv[2])
if game == "serve":
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.settimeout(bed.PATIENCE)
    line.bind((bed.OURS, port))
    print("ready", flush=True)
    for _ in range(int(sys.argv[3])):
        data, sender = line.recvfrom(1 << 16)
        line.sendto(data, sender)
elif game == "damaged":
    wire = bed.Wire()
    sound = bed.udp(4000, port, b"sound")
    wrong = sound[:6] + struct.pack("!H", struct.unpack("!H", sound[6:8])[0] ^ 0x5555) + sound[8:]
    none = bed.udp(4001, port, b"none")
    none = none[:6] + b"\0\0" + none[8:]
    short = sound[:4] + struct.pack("!H", 7) + sound[6:]
    long = sound[:4] + struct.pack("!H", len(sound) + 1) + sound[6:]
    for packet in [wrong, short, long, b"\1\2\3", sound, none]:
        wire.send(bed.ip(packet, proto=bed.UDP))
    bed.say({"sent": 6})
else:
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.settimeout(bed.PATIENCE)
    line.connect((bed.HOST, port))
    line.send(b"anybody?")
    try:
        line.recv(100)
        bed.say({"said": "an answer"})
    except ConnectionRefusedError:
        bed.say({"said": "refused"})
