"""What outlives a run of a role: it may be read, and must neither change nor answer differently when it is asked again.

Each file would be proved if the consumer were believed to go on as it began: it stops to release in the 41st iteration.
"""

from __future__ import annotations

import pytest

from sm90_verify import check
from sm90_verify.python_file import load_classes
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace

FILE = """
from sm90_verify import Component, Pipeline, PipelineState, barrier, role
{top}
class Ring(Pipeline):
    full = barrier()
    empty = barrier()
    {attributes}
    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.forever():
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive()
            at += 1

    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        {before}
        for _ in self.forever():
            yield self.full[at].wait(at.phase)
            {body}
            if not ({stopped}):
                yield self.empty[at].arrive()
            at += 1
"""


def ring(folder, top="", attributes="", before="", body="", stopped="False"):
    lines = {"attributes": (attributes, 4), "before": (before, 8), "body": (body, 12)}
    indented = {name: text.replace("\n", "\n" + " " * by) for name, (text, by) in lines.items()}
    path = folder / "ring.py"
    path.write_text(FILE.format(top=top, stopped=stopped, **indented))
    return path, load_classes(str(path))[0]


CHANGED = {
    "a list": ("S = []", "", "S.append(1)  # here", "len(S) > 40", "S"),
    "a number": ("N = 0\ndef bump():\n    global N\n    N += 1  # here", "", "bump()", "N > 40", "N"),
    "a dict": ("S = {'n': 0}", "", "S['n'] += 1  # here", "S['n'] > 40", "S"),
    "a set": ("S = set()", "", "S.add(len(S))  # here", "len(S) > 40", "S"),
    "a deque": ("from collections import deque\nS = deque()", "", "S.append(1)  # here", "len(S) > 40", "S"),
    "a counter": ("from collections import Counter\nS = Counter()", "", "S[1] += 1  # here", "S[1] > 40", "S"),
    "what lies deep": ("S = ({1: [[0]]},)", "", "S[0][1][0][0] += 1  # here", "S[0][1][0][0] > 40", "S"),
    "bytes": ("S = bytearray(1)", "", "S[0] += 1  # here", "S[0] > 40", "S"),
    "an array": ("from array import array\nS = array('i', [0])", "", "S[0] += 1  # here", "S[0] > 40", "S"),
    "by a name of its own": ("S = []", "", "s = S  # here\ns.append(1)\ndel s", "len(S) > 40", "S"),
    "by way of globals": ("N = 0", "", "globals()['N'] += 1  # here", "N > 40", "N"),
    "by way of globals alone": ("N = 0", "", "globals()['N'] += 1  # here", "globals()['N'] > 40", "N"),
    "by a text": ("N = 0", "", "exec('global N; N += 1')", "N > 40  # here\n", "N"),
    "of another module": ("import os", "", "os.n = getattr(os, 'n', 0) + 1  # here", "os.n > 40", "os.n"),
    "of all modules": ("import builtins\nbuiltins.n_ = 0", "", "builtins.n_ += 1  # here", "n_ > 40", "n_"),
    "an object": ("class C:\n    n = 0\nc = C()", "", "c.n += 1  # here", "c.n > 40", "c.n"),
    "slots": (
        "class C:\n    __slots__ = ('n',)\n    def __init__(self): self.n = 0\nc = C()",
        "",
        "c.n += 1  # here",
        "c.n > 40",
        "c.n",
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    n: int = 0\nc = C()",
        "",
        "c.n += 1  # here",
        "c.n > 40",
        "c.n",
    ),
    "an object that is called": (
        "class C:\n    n = 0\n    def __call__(self):\n        self.n += 1  # here\n        return self.n\nc = C()",
        "",
        "",
        "c() > 40",
        "c.n",
    ),
    "a class": ("class C:\n    n = 0", "", "C.n += 1  # here", "C.n > 40", "C.n"),
    "a base": ("class Base(Pipeline):\n    n = 0", "", "Base.n += 1  # here", "Base.n > 40", "Base.n"),
    "a list of a base": (
        "class Pipeline(Pipeline):\n    s = []",
        "",
        "self.s.append(1)  # here",
        "len(self.s) > 40",
        "self.s",
    ),
    "a class of a class": (
        "class M(type):\n    n = 0\nclass Pipeline(Pipeline, metaclass=M): pass",
        "",
        "type(type(self)).n += 1  # here",
        "type(self).n > 40",
        "self.n",
    ),
    "a closure": (
        "def make():\n    n = 0\n    def f():\n        nonlocal n\n        n += 1  # here\n        return n\n"
        "    return f\nf = make()",
        "",
        "",
        "f() > 40",
        "n",
    ),
    "a default": (
        "def f(s=[]):\n    s.append(1)\n    return len(s)",
        "",
        "n = f()  # here",
        "n > 40",
        "the defaults of f",
    ),
    "an attribute of a function": ("def f(): f.n += 1  # here\nf.n = 0", "", "f()", "f.n > 40", "f.n"),
    "a cached list": (
        "from functools import cache\n@cache\ndef f(): return [0]",
        "",
        "f()[0] += 1  # here",
        "f()[0] > 40",
        "the cache of f",
    ),
    "an environment": (
        "import os\nos.environ['N_'] = '0'",
        "",
        "os.environ['N_'] += '0'  # here",
        "len(os.environ['N_']) > 40",
        "os.environ._data",
    ),
    "an attribute of its class": ("", "n = 0", "type(self).n += 1  # here", "self.n > 40", "self.n"),
    "a list of its class": ("", "s = []", "self.s.append(1)  # here", "len(self.s) > 40", "self.s"),
    "its own dict": ("", "n = 0", "vars(self)['n'] = self.n + 1  # here", "self.n > 40", "self.n"),
    "a property": (
        "",
        "s = [0]\n@property\ndef p(self):\n    self.s[0] += 1  # here\n    return self.s[0]",
        "",
        "self.p > 40",
        "self.s",
    ),
    "a descriptor": (
        "class D:\n    n = 0\n    def __get__(self, *_):\n        self.n += 1  # here\n        return self.n",
        "d = D()",
        "",
        "self.d > 40",
        "self.d.n",
    ),
    "a cached property": (
        "from functools import cached_property as c",
        "@c\ndef s(self): return [0]",
        "self.s[0] += 1  # here",
        "self.s[0] > 40",
        "s",
    ),
    "a component": (
        "class Part(Component):\n    n = 0\n    def arrays(self, owner): return {}",
        "part = Part()",
        "self.part.n += 1  # here",
        "self.part.n > 40",
        "self.part.n",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_outlives_a_role_must_not_change(name, tmp_path):
    top, attributes, body, stopped, told = CHANGED[name]
    path, kernel = ring(tmp_path, top, attributes, "", body, stopped)
    with pytest.raises(SpecError) as error:
        trace(kernel())
    line = path.read_text()[: path.read_text().index("# here")].count("\n") + 1
    assert str(error.value).startswith(
        f"{path}:{line}: a role changes {told}, which all roles would share: keep it in a local"
    )


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
    monkeypatch.setattr("sm90_verify.spec.language.walk.MAX_LOCATIONS", 200)
    before, body, stopped, told = KEPT[name]
    _, kernel = ring(tmp_path, TOP, "", before, body, stopped)
    with pytest.raises(SpecError, match=told):
        trace(kernel())


READ = {
    "constants": ("import math\nS = [1, {2: (3,)}]", "s = [4]", "", "S[0] + self.s[0] > math.pi + 4"),
    "what others use": (
        "import os, random, time\nfrom itertools import count",
        "i = count()\nr = random.Random()",
        "",
        "",
    ),
    "paths and streams": (
        "import os, sys",
        "",
        "print(end=os.path.basename('a/'), file=sys.stderr)\nself.full[at].wait",
        "",
    ),
    "caches": ("from functools import cache\n@cache\ndef f(n): return (n, n + 1)", "", "f(at.index)", "f(3)[1] == 5"),
    "a cached property": ("from functools import cached_property as c", "@c\ndef s(self): return [0]", "", "self.s[0]"),
    "enumerations": (
        "from enum import Enum, Flag\nclass E(Enum):\n    A = 1\nclass F(Flag):\n    A = 1\n    B = 2",
        "",
        "F.A | F.B",
        "E(1) is not E.A",
    ),
    "named tuples": ("from typing import NamedTuple\nclass T(NamedTuple):\n    a: int = 2", "", "", "T().a != 2"),
    "dataclasses": (
        "from dataclasses import dataclass, field as f\n@dataclass\nclass T:\n    a: int\n"
        "    b: list = f(default_factory=list)",
        "",
        "t = T(1)\nt.b.append(t.a)\nt = t.b[0]",
        "t > 1",
    ),
    "contexts": (
        "from contextlib import contextmanager\n@contextmanager\ndef f(): yield 0",
        "",
        "with f() as n: pass",
        "n",
    ),
    "warnings": (
        "import warnings, helping",
        "",
        "with warnings.catch_warnings(record=True): helping.old()",
        "",
    ),
    "a log": ("import logging\nlog = logging.getLogger(__name__)", "", "log.debug('%s', at)", ""),
    "its own mutable": ("", "", "s = []\ns.append(at.index)\nn = len(s)\ndel s", "n > 1"),
}


@pytest.mark.parametrize("name", READ)
def test_what_stays_as_it_is_may_be_read(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helping.py").write_text("import warnings\ndef old(): warnings.warn('old', stacklevel=1)\n")
    top, attributes, body, stopped = READ[name]
    _, kernel = ring(tmp_path, top, attributes, "", body, stopped or "False")
    assert check(kernel()).verdict == "proved"


def test_what_a_role_catches_is_refused_all_the_same(tmp_path):
    body = "try:\n    n = self.drawn()\nexcept Exception:\n    n = 0"
    _, kernel = ring(tmp_path, "import random", "def drawn(self): return random.random() > 2", "", body, "n")
    with pytest.raises(SpecError, match="a role uses random, which"):
        trace(kernel())


def test_a_class_of_this_package_must_not_change(tmp_path, monkeypatch):
    monkeypatch.setattr(Pipeline, "_seen", 0, raising=False)
    _, kernel = ring(tmp_path, "", "", "", "Pipeline._seen += 1", "self._seen > 40")
    with pytest.raises(SpecError, match=r"ring\.py:22: a role changes \w+\._seen, which"):
        trace(kernel())


def test_a_module_of_the_user_must_not_change(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bumping.py").write_text("n = 0\ndef bump():\n    global n\n    n += 1\n    return n\n")
    _, kernel = ring(tmp_path, "import bumping", "", "", "", "bumping.bump() > 40")
    with pytest.raises(SpecError, match=r"bumping\.py:4: a role changes (bumping\.)?n, which"):
        trace(kernel())


def test_one_role_must_not_change_what_another_one_reads(tmp_path):
    """Neither has a loop: what the first of them leaves would be there for the second, and for its own next run."""
    text = """
from sm90_verify import Pipeline, barrier, role
S = []
class Ring(Pipeline):
    full = barrier()
    @role(warps=1)
    def producer(self):
        S.append(1)  # here
        yield self.full[0].arrive()
    @role(warps=1)
    def consumer(self):
        yield self.full[0].wait(len(S) - 1)
"""
    path = tmp_path / "ring.py"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"ring\.py:8: a role changes S, which"):
        trace(load_classes(str(path))[0]())
