"""setmaxnreg: a pool of registers that the warps of a CTA share. D31."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role


class MoreThanThePool(Pipeline):
    """tile-ai/tilelang #2406, #2567: 24 and 240 registers, hard coded, are more than the CTA was launched with."""

    producers = 2
    consumers = 2
    registers = 128
    less = 24
    more = 240

    @role(warpgroups=1, copies="producers")
    def producer(self):
        yield self.setmaxnreg_dec(self.less)

    @role(warpgroups=1, copies="consumers")
    def consumer(self):
        yield self.setmaxnreg_inc(self.more)


class OneWarpSkipsTheDec(Pipeline):
    """Dao-AILab/quack 97c98dc: one warp of the producer warpgroup skips setmaxnreg.dec, and its
    registers are missing.
    """

    registers = 168
    skips = True

    @role(threads=128, split=(96, 32))
    def producer(self, me):
        if me.leader or not self.skips:
            yield self.setmaxnreg_dec(24)

    @role(warpgroups=1, copies=2)
    def consumer(self):
        yield self.setmaxnreg_inc(240)


class IncBeforeTheDec(Pipeline):
    """pytorch/helion #3620 and its like: the inc waits for registers of a role that waits for what comes after the
    inc.
    """

    registers = 168
    waits_first = True
    ready = barrier(arrivals=1)

    @role(warpgroups=1)
    def producer(self):
        if self.waits_first:
            yield self.ready.wait(0)
        yield self.setmaxnreg_dec(40)
        if not self.waits_first:
            yield self.ready.wait(0)

    @role(warpgroups=1)
    def consumer(self):
        yield self.setmaxnreg_inc(232)
        yield self.ready.arrive()


CASES = (
    (
        "D31",
        MoreThanThePool(),
        {"deadlock": "consumer", "register-pool": "registers"},
        (
            MoreThanThePool(more=224),
            MoreThanThePool(producers=1, registers=168),
            MoreThanThePool(producers=1, registers=168, less=40, more=232),
        ),
    ),
    (
        "D31 two blocks",
        MoreThanThePool(producers=1, registers=80),
        {"deadlock": "consumer", "register-pool": "registers"},
        (MoreThanThePool(producers=1, registers=80, more=104),),
    ),
    (
        "D31 two warpgroups",
        MoreThanThePool(producers=1, consumers=1),
        {"deadlock": "consumer", "register-pool": "registers"},
        (MoreThanThePool(producers=1, consumers=1, more=232),),
    ),
    (
        "D31 one warp",
        OneWarpSkipsTheDec(),
        {"deadlock": "consumer", "register-pool": "registers"},
        (OneWarpSkipsTheDec(skips=False),),
    ),
    ("D31 order", IncBeforeTheDec(), {"deadlock": "producer"}, (IncBeforeTheDec(waits_first=False),)),
)
