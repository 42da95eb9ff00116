"""What outlives a run of a role: it may be read, and must not change.

Each file would be proved if the consumer were believed to go on as it began: it stops to release in the 41st iteration.
"""

from __future__ import annotations

import pytest
from ring_file import ring

from sm90_verify import check
from sm90_verify.python_file import load_classes
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace

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
