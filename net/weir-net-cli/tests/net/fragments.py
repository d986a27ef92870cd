"""Fragment games: an echo request in pieces that come as they should not.

Prints for each game whether the request was answered, and whether with its own data; and what else
came back. Nothing here knows what the right outcome is.
"""

import itertools
import random
import struct
import subprocess
import sys
import time

from bed import HOST, ICMP, PATIENCE, TCP, Wire, echo, ip, say

BYTES = 4000


class Game:
    """One datagram and what is done to its fragments."""

    idents = None

    def __init__(self, wire, name, size=BYTES, src="10.9.0.1"):
        self.wire, self.name, self.src = wire, name, src
        self.ident = next(self.idents)
        self.data = wire.random.randbytes(size)
        self.whole = echo(self.ident, 7, self.data)
        # Other data, of which every eight bytes add up to the same: no mixture of the two is given
        # away by the checksum of ICMP.
        blocks = [self.whole[at:at + 8] for at in range(8, len(self.whole) - 7, 8)]
        forged = b"".join(block[4:] + block[:4] for block in blocks)
        self.forged = self.whole[:8] + forged + self.whole[8 + len(forged):]

    def piece(self, start, end, forged=False, more=None, ident=None):
        data = (self.forged if forged else self.whole)[start:end]
        more = end < len(self.whole) if more is None else more
        ident = self.ident if ident is None else ident
        return ip(data, ident=ident, mf=more, offset=start, src=self.src)

    def pieces(self, *cuts):
        """In order, cut there, or as a device of 1,500 bytes has it."""
        edges = [0, *(cuts or range(1480, len(self.whole), 1480)), len(self.whole)]
        return [self.piece(start, end) for start, end in zip(edges, edges[1:])]

    def play(self, packets):
        seen = self.wire.exchange(*packets)
        answers = [packet for packet in seen if packet.proto == ICMP and packet.type == 0]
        others = [packet.brief() for packet in seen if packet not in answers]
        mine = struct.pack("!HH", self.ident, 7)
        right = sum(packet.data[4:8] == mine and packet.data[8:] == self.data for packet in answers)
        return {"answered": len(answers), "right": right, "others": others}


def orders(wire):
    """Fragments as any network may deliver them: all must be answered."""
    game = Game(wire, "in order")
    yield game, game.pieces()
    game = Game(wire, "reverse")
    yield game, game.pieces()[::-1]
    game = Game(wire, "each twice")
    yield game, [piece for piece in game.pieces()[:2] for _ in "ab"] + game.pieces()[2:]
    game = Game(wire, "eight bytes each", size=400)
    yield game, game.pieces(*range(8, 408, 8))
    game = Game(wire, "first of eight bytes")
    yield game, game.pieces(8, 1480, 2960)
    game = Game(wire, "last of one byte", size=1473)
    yield game, game.pieces(1480)
    chance = random.Random(4)
    for number in range(20):
        game = Game(wire, f"shuffled {number}", size=chance.randrange(100, 9000))
        most = range(1480, len(game.whole), 1480)
        inner = range(8, len(game.whole), 8)
        more = chance.sample(inner, min(len(inner), chance.randrange(1, 9)))
        pieces = game.pieces(*sorted({*most, *more}))
        chance.shuffle(pieces)
        yield game, pieces
    game = Game(wire, "two datagrams interleaved")
    other = Game(wire, "other")
    yield game, [piece for two in zip(other.pieces(), game.pieces()) for piece in two][1:]


def overlaps(wire):
    """Fragments that contradict each other, or could."""
    end = 2008

    def game(name, *shape):
        made = Game(wire, name, size=end - 8)
        return made, [made.piece(*piece[:2], forged="forged" in piece[2:]) for piece in shape]

    yield game("head of the next covered", (0, 608, "forged"), (600, 1200), (1200, end))
    yield game("next covered by the one before, late", (600, 1200), (0, 608, "forged"), (1200, end))
    yield game("next reaches back", (0, 600), (592, 1200, "forged"), (1200, end))
    yield game("reaches back, first", (592, 1200, "forged"), (0, 600), (1200, end))
    yield game("one within another", (0, 600), (8, 16, "forged"), (600, 1200), (1200, end))
    yield game("one around another", (8, 16), (0, 600, "forged"), (600, 1200), (1200, end))
    yield game("over two", (600, 1200), (0, 1200, "forged"), (1200, end))
    yield game("the same, forged first", (600, 1200, "forged"), (0, 600), (600, 1200), (1200, end))
    yield game("the same, forged second", (0, 600), (600, 1200), (600, 1200, "forged"), (1200, end))
    made = Game(wire, "two ends", size=end - 8)
    yield made, [made.piece(0, 600), made.piece(1200, 1240, more=False), made.piece(600, 1200),
                 made.piece(1200, end)]
    made = Game(wire, "data behind the end", size=end - 8)
    yield made, [made.piece(1200, end), ip(b"x" * 16, ident=made.ident, mf=True, offset=2400),
                 made.piece(0, 600), made.piece(600, 1200)]


def impossible(wire):
    """Fragments that cannot be."""
    def alone(name, *packets):
        return Game(wire, name), list(packets)

    def at(offset, data, **more):
        return ip(data, offset=offset, ident=next(Game.idents), **more)

    made = Game(wire, "beyond 65535")
    yield made, made.pieces()[:1] + [ip(b"x" * 100, ident=made.ident, offset=65_512)]
    yield alone("beyond 65535, alone", at(65_528, b"x" * 8))
    made = Game(wire, "not of eight bytes")
    yield made, [made.piece(0, 1479), *made.pieces()[1:]]
    yield alone("empty, more", at(80, b"", mf=True))
    yield alone("empty, last", at(80, b""))
    # RFC 1858: the flags of TCP must not hide in a second fragment.
    syn = struct.pack("!HHIIHHHH", 1000, 80, 1, 0, 0x5002, 1000, 0, 0)
    yield alone("tiny first of TCP", at(0, syn[:8], proto=TCP, mf=True))
    yield alone("tiny first of TCP, 16 bytes", at(0, syn[:16], proto=TCP, mf=True))
    yield alone("TCP at offset 8", at(8, syn[8:], proto=TCP))


def stuck(wire, count):
    """Partial datagrams from many forged sources, and honest requests among them."""
    answered = right = 0
    chance = random.Random(9)
    for batch in range(count // 100):
        for _ in range(100):
            source = f"172.{chance.randrange(16, 32)}.{chance.randrange(256)}.{chance.randrange(256)}"
            wire.send(ip(b"x" * 1480, src=source, ident=chance.randrange(65536), mf=True,
                         offset=1480 * chance.randrange(3)))
        game = Game(wire, "honest")
        outcome = game.play(game.pieces())
        answered, right = answered + outcome["answered"], right + outcome["right"]
        if batch % 20 == 0:
            # And as the kernel cuts them.
            ping = ["ping", "-q", "-c", "5", "-i", "0.002", "-W", "5", "-s", "4000", HOST]
            subprocess.run(ping, check=True, stdout=subprocess.DEVNULL)
            wire.settle()
    return {"honest": count // 100, "answered": answered, "right": right}


def hog(wire, count):
    """A datagram of another source that is begun before one source sends many partial ones, and
    ended after. The kernel does not know the other's address: the answer is seen on the device."""
    other = Game(wire, "other", src="10.9.0.66")
    pieces = other.pieces()
    wire.exchange(*pieces[:-1])
    for ident in range(count):
        wire.send(ip(b"x" * 1480, src="10.9.0.77", ident=ident, mf=True))
        if ident % 100 == 99:
            wire.settle()
    return {"other": other.play(pieces[-1:])}


def timeout(wire):
    """Two datagrams that stay without their ends: one has its first fragment, one has not."""
    headless, headed = Game(wire, "headless"), Game(wire, "headed")
    begun = time.monotonic()
    came = wire.exchange(headless.pieces()[1], headed.pieces()[0])
    # On a busy host the time may be over before the exchange is.
    first, *rest = came or [wire.receive(begun + PATIENCE)]
    took = time.monotonic() - begun
    # Of the other nothing came: it was there before.
    rest += wire.settle()
    return {
        "rest": [packet.brief() for packet in rest],
        "exceeded": first and first.brief(),
        "quotes the first fragment": first and headed.pieces()[0].startswith(
            first.data[8:36]),
        "took_s": took,
        "after": (again := Game(wire, "again")).play(again.pieces()),
    }


def late(wire):
    """First fragments of some datagrams, again and again, for longer than they are waited for."""
    pieces = [Game(wire, f"late {number}").pieces()[0] for number in range(20)]
    until, sent = time.monotonic() + 0.3, 0
    while time.monotonic() < until:
        wire.exchange(*pieces)
        sent += len(pieces)
    return {"sent": sent}


def games(wire, which):
    """The outcome of each game by its name; after each an honest one must succeed."""
    outcomes = {}
    for game, packets in which(wire):
        outcomes[game.name] = game.play(packets)
        honest = Game(wire, "honest")
        outcomes[game.name]["honest"] = honest.play(honest.pieces())["right"]
    return outcomes


def main():
    wire, what = Wire(), sys.argv[1]
    # What another set of games has left waiting must not meet ours.
    kinds = ("orders", "overlaps", "impossible", "stuck", "timeout", "hog", "late")
    Game.idents = itertools.count(1 + 8000 * kinds.index(what))
    if what == "stuck":
        say(stuck(wire, int(sys.argv[2])))
    elif what == "hog":
        say(hog(wire, int(sys.argv[2])))
    elif what == "timeout":
        say(timeout(wire))
    elif what == "late":
        say(late(wire))
    else:
        say(games(wire, {"orders": orders, "overlaps": overlaps, "impossible": impossible}[what]))


main()
