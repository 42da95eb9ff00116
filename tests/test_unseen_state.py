"""What a role asks and nothing shows: iterators, clocks, random numbers, and what a variable holds beside its value.

Each file would be proved if the consumer were believed to go on as it began: it stops to release in the 41st iteration.
"""

from __future__ import annotations

import pytest
from ring_file import ring

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace

UNSEEN = {
    "an iterator": ("from itertools import count\nI = count()", "", "", "next(I) > 40", "I, of type count"),
    "an iterator in a dict": (
        "from itertools import count\nI = [{1: count()}]",
        "",
        "",
        "next(I[0][1]) > 40",
        "I, of type count",
    ),
    "a method of an iterator": (
        "from itertools import count\nf = count().__next__",
        "",
        "",
        "f() > 40",
        "f, of type count",
    ),
    "an iterator in a partial": (
        "from itertools import count\nfrom functools import partial\nf = partial(next, count())",
        "",
        "",
        "f() > 40",
        "f, of type count",
    ),
    "an iterator of its class": (
        "from itertools import count",
        "i = count()",
        "",
        "next(self.i) > 40",
        "self.i, of type count",
    ),
    "an iterator that is named by a text": (
        "from itertools import count",
        "i = count()",
        "",
        "next(getattr(self, 'i')) > 40",
        "self.i, of type count",
    ),
    "an iterator that is a default": (
        "from itertools import count\ndef f(i=count()): return next(i)",
        "",
        "",
        "f() > 40",
        "the defaults of f, of type count",
    ),
    "a context of decimals": (
        "import decimal",
        "",
        "",
        "decimal.getcontext().prec > 60",
        "decimal.getcontext, of decimal",
    ),
    "a generator": ("G = (k for k in range(10**9))", "", "", "next(G) > 40", "G, of type generator"),
    "random": ("import random", "", "", "random.random() > 2", "random, which need not"),
    "a function of random": ("from random import random as r", "", "", "r() > 2", "r, of random, which need not"),
    "a generator of random numbers": (
        "from random import Random\nr = Random(1)",
        "",
        "",
        "r.random() > 2",
        "r, of random",
    ),
    "time": ("import time", "", "", "time.time() < 0", "time, which need not"),
    "a clock": ("from time import monotonic as now", "", "", "now() < 0", "now, of time, which need not"),
    "a clock of its own": ("", "", "from time import time\nt = time() > 0\ndel time", "not t", "time, which need not"),
    "a variable of a context": (
        "from contextvars import ContextVar\nV = ContextVar('V', default=0)",
        "",
        "",
        "V.get() > 40",
        "V, of contextvars",
    ),
    "the system": ("import os", "", "", "os.urandom(1)[0] > 400", "os.urandom, of posix"),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_outlives_a_role_must_be_seen(name, tmp_path):
    top, attributes, body, stopped, told = UNSEEN[name]
    _, kernel = ring(tmp_path, top, attributes, "", body, stopped)
    with pytest.raises(SpecError, match=rf"ring\.py:\d+: a role uses {told}"):
        trace(kernel())


KEPT = {
    "a class": ("K = type('K', (), {'n': 0})", "K.n += 1", "K.n > 40", "a role changes K.n"),
    "a component": ("k = Part()", "k.n += 1", "k.n > 40", "a role changes k.n"),
    "a function": ("f = lambda: 0; f.n = 0", "f.n += 1", "f.n > 40", "still running"),
    "a number": ("n = Number(); n.n = 0", "n.n += 1", "n.n > 40", "still running"),
    "a list": ("n = List(); n.n = 0", "n.n += 1", "n.n > 40", "still running"),
    "a dict": (
        "d = defaultdict(count().__next__)",
        "n = d[0]\nd.clear()\nn = min(n, 40)",
        "n == 40",
        "holds a method-wrapper",
    ),
    "a method": (
        "c = [0]\nf = MethodType(lambda _, c=c: c.append(1) or len(c), self)\ndel c",
        "",
        "f() > 40",
        "still running",
    ),
    "a barrier": ("b = self.full[0]", "b.n = getattr(b, 'n', 0) + 1", "b.n > 40", "no attribute 'n'"),
    "a pipeline": ("q = Ring()", "q.n = getattr(q, 'n', 0) + 1", "q.n > 40", "holds a Ring"),
    "a clock": ("from time import time as now", "", "now() < 0", "a role uses time"),
}
TOP = """
from collections import defaultdict
from itertools import count
from types import MethodType
class Part(Component):
    n = 0
    def arrays(self, owner): return {}
class Number(int): pass
class List(list): pass
"""


@pytest.mark.parametrize("name", KEPT)
def test_a_variable_shows_all_that_it_holds(name, tmp_path, monkeypatch):
    monkeypatch.setattr("sm90_verify.spec.language.role_walk.MAX_LOCATIONS", 200)
    before, body, stopped, told = KEPT[name]
    _, kernel = ring(tmp_path, TOP, "", before, body, stopped)
    with pytest.raises(SpecError, match=told):
        trace(kernel())


def test_what_a_role_catches_is_refused_all_the_same(tmp_path):
    body = "try:\n    n = self.drawn()\nexcept Exception:\n    n = 0"
    _, kernel = ring(tmp_path, "import random", "def drawn(self): return random.random() > 2", "", body, "n")
    with pytest.raises(SpecError, match="a role uses random, which"):
        trace(kernel())
