"""Sends user datagrams of some sizes to a port of the host, and prints those that came back right.

udp.py PORT SIZE...
"""

import json
import socket
import sys

HOST = "10.9.0.2"

port = int(sys.argv[1])
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.settimeout(10)
line.connect((HOST, port))
right = []
for size in map(int, sys.argv[2:]):
    sent = bytes((at * 7 + size) & 255 for at in range(size))
    line.send(sent)
    if line.recv(65536) == sent:
        right.append(size)
print(json.dumps({"right": right}))
