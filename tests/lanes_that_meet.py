"""Parts of a warp that meet with and without an order of memory, written as letters."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class Hands(Pipeline):
    """Two parts of a warp, and two other warps. A letter each: r, w: read and write a; R, W: b; S: __syncwarp; s: the
    lanes meet as at elect.sync; A, B, p: arrivals on full, back and part; M, N, q: waits for them; n: bar.sync of two
    warps.
    """

    first = ""
    second = ""
    other = ""
    third = ""
    count = 1
    full = barrier(arrivals=32)
    back = barrier(arrivals=32)
    part = barrier(arrivals="count")
    a = tile(bytes=16)
    b = tile(bytes=16)

    @role(threads=32, split=(1, 31))
    def lanes(self, me):
        yield from self.does(self.first if me.first == 0 else self.second, me.threads)

    @role(warps=1)
    def looks(self, me):
        yield from self.does(self.other, me.threads)

    @role(warps=1)
    def meets(self, me):
        yield from self.does(self.third, me.threads)

    def does(self, letters, threads):
        for letter in letters:
            match letter:
                case "r" | "R" | "w" | "W":
                    tile = self.a if letter in "rw" else self.b
                    yield tile.read() if letter in "rR" else tile.write()
                case "S" | "s":
                    yield self.warp_sync(orders=letter == "S")
                case "n":
                    yield self.named_sync(1, 64)
                case "A" | "B" | "p":
                    yield {"A": self.full, "B": self.back, "p": self.part}[letter].arrive(threads)
                case _:
                    yield {"M": self.full, "N": self.back, "q": self.part}[letter].wait(0)
