"""The programs that hang, how they are built and dumped, and what is kept."""

from __future__ import annotations

import dataclasses
import json
import lzma
import re
import shutil
import subprocess
import sys

import pytest
from dumps import FOLDER, KNOWN, NAMES, SOURCES_OF_OUR_OWN, core_of_name, path_of, ptx_of, raw

from sm90_verify.evidence.hardware.hangs.cases import CUTLASS, GEMM, PIPELINES, Hang, hangs
from sm90_verify.evidence.hardware.hangs.known import PLACES, known
from sm90_verify.evidence.hardware.hangs.record import FLAGS, build, dump, keep, main, whole
from sm90_verify.evidence.hardware.hangs.strip import stripped
from sm90_verify.evidence.hardware.hangs.words import main as words_main
from sm90_verify.evidence.hardware.hangs.words import words_of
from sm90_verify.evidence.hardware.mbarrier.driver import nvcc
from sm90_verify.frontends.cudacore.container import SectionKind, container_of
from sm90_verify.frontends.cudacore.read import core_of
from sm90_verify.spec.errors import SpecError

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="needs nvcc")
BY_NAME = {one.name: one for one in hangs()}


# ---------------------------------------------------------------- what is kept


def test_every_hang_has_its_dump_and_what_is_known_of_it():
    assert sorted(BY_NAME) == NAMES
    assert {path.name for path in FOLDER.iterdir()} == {
        "hangs.json",
        *(f"{name}.cudacore.xz" for name in NAMES),
        *(f"{name}.ptx.xz" for name in SOURCES_OF_OUR_OWN),
    }
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 3 << 20


@pytest.mark.parametrize("name", NAMES)
def test_what_is_known_is_what_the_models_say_today(name):
    assert json.loads(json.dumps(known(BY_NAME[name]))) == KNOWN[name]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_names_no_place_but_where_it_was_compiled_and_run(name):
    text = raw(name) + ("\n".join(ptx_of(name)).encode() if name in SOURCES_OF_OUR_OWN else b"")
    found = {one.decode() for one in re.findall(rb"/(?:tmp|work|home|root|usr|opt|build)/[\w./+-]*", text)}
    there = re.compile(r"/[a-z]+/(kernels|programs)\b.*|/usr/local/cuda-[\d.]+/.*")
    assert {one for one in found if there.fullmatch(one) is None} == set()


@pytest.mark.parametrize("name", ["places", "tma_async_expect_more", "two_grids"])
def test_what_is_left_out_is_other_code_and_memory(name):
    """Doing it again changes nothing; and of modules, those remain that grids run."""
    data = raw(name)
    assert stripped(data) == data
    core, container = core_of_name(name), container_of(name, data)
    assert {module.handle for module in core.modules if module.image} == {grid.module.handle for grid in core.grids}
    assert list(container.of_kind(SectionKind.IMAGE)) == []
    memory = [one.size for one in container.of_kind(SectionKind.GLOBAL)]
    assert memory == ([768] if BY_NAME[name].constants else [])


def test_the_addresses_of_the_fields_of_places():
    text = (FOLDER.parents[2] / "kernels" / "hang_places.cu").read_text()
    fields = re.findall(r"unsigned long long (\w+)(?:, (\w+))?;", text)
    assert [name for pair in fields for name in pair if name] == list(PLACES)
    assert list(PLACES.values()) == list(range(0x400, 0x428, 8))


# ---------------------------------------------------------------- programs


@needs_nvcc
@pytest.mark.parametrize("name", ["tma_async_release_to_itself_2x1", "pingpong_order_swapped", "places"])
def test_a_program_is_compiled(name, tmp_path):
    """Its kernel has no watch, and the dump's lines are those of the PTX that is made."""
    program = build(BY_NAME[name], tmp_path / "programs", scratch=tmp_path / "kernels")
    assert program.stat().st_mode & 0o111
    text = (tmp_path / "programs" / f"{name}.ptx").read_text()
    assert "globaltimer" not in text and "mbarrier.try_wait" in text
    usage = subprocess.run([program], capture_output=True, text=True, check=False)
    assert usage.returncode == 2 and usage.stdout.startswith("usage: ")


@needs_nvcc
def test_what_nvcc_refuses(tmp_path):
    wrong = dataclasses.replace(BY_NAME["places"], macros={"THREADS": "no number"})
    with pytest.raises(SpecError, match="nvcc refuses places"):
        build(wrong, tmp_path, scratch=tmp_path / "kernels")


def test_without_nvcc(monkeypatch, tmp_path):
    monkeypatch.setattr("sm90_verify.evidence.hardware.hangs.record.nvcc", lambda: None)
    with pytest.raises(SpecError, match="this needs nvcc"):
        build(BY_NAME["places"], tmp_path)


def test_which_kernels_may_be_dumped_with_their_constants():
    assert {one.source for one in hangs() if one.constants} == {PIPELINES, GEMM}


# ---------------------------------------------------------------- dumps, of a program that only pretends

PRETENDER = """#!{python}
import os, sys, time
what, core = {what!r}, {core!r}
print("started", flush=True)
if what == "ends":
    sys.exit(3)
pipe = os.environ["CUDA_COREDUMP_PIPE"]
if what != "silent":
    os.mkfifo(pipe)
    with open(pipe) as asked:
        asked.read(1)
    assert os.environ["CUDA_ENABLE_USER_TRIGGERED_COREDUMP"] == "1"
    open(core + ".flags", "w").write(os.environ["CUDA_COREDUMP_GENERATION_FLAGS"])
    data = open(core, "rb").read()
    with open(os.environ["CUDA_COREDUMP_FILE"], "wb") as file:
        for at in range(0, len(data), 50_000):
            file.write(data[at : at + 50_000])
            file.flush()
            time.sleep(0.01)
time.sleep(60)
"""


def pretender(folder, what: str, name: str = "places"):
    core = folder / "core"
    core.write_bytes(raw(name))
    program = folder / name
    program.write_text(PRETENDER.format(python=sys.executable, what=what, core=str(core)))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("name", "more"), [("places", ",skip_constbank_memory"), ("ws_expect_more", "")])
def test_a_dump_is_asked_for(tmp_path, name, more):
    program = pretender(tmp_path, "hangs", name)
    assert dump(BY_NAME[name], program) == raw(name)
    assert (tmp_path / "core.flags").read_text() == FLAGS + more


@pytest.mark.parametrize(
    ("what", "why"), [("ends", "places does not hang: started"), ("silent", "waited 1 s for somebody who reads")]
)
def test_a_dump_that_does_not_come(tmp_path, monkeypatch, what, why):
    monkeypatch.setattr("sm90_verify.evidence.hardware.hangs.record.PATIENCE", 1.0)
    with pytest.raises(SpecError, match=why):
        dump(BY_NAME["places"], pretender(tmp_path, what))


def test_what_is_kept_of_a_dump(tmp_path, capsys):
    """By the command, which tells the failures apart."""
    pretender(tmp_path, "hangs")
    (tmp_path / "places.ptx").write_text("// text\n")
    assert main(["dump", "places", "--programs", str(tmp_path), "--to", str(tmp_path / "kept")]) == 0
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "hangs.json",
        "places.cudacore.xz",
        "places.ptx.xz",
    ]
    assert lzma.decompress((tmp_path / "kept" / "places.cudacore.xz").read_bytes()) == raw("places")
    table = json.loads((tmp_path / "kept" / "hangs.json").read_text())
    assert table == {"places": KNOWN["places"]}
    shutil.copy(tmp_path / "places.ptx", tmp_path / "exception.ptx")
    keep(BY_NAME["exception"], raw("exception"), tmp_path, tmp_path / "kept")
    assert sorted(json.loads((tmp_path / "kept" / "hangs.json").read_text())) == ["exception", "places"]
    assert capsys.readouterr().out.startswith("places: ")
    assert main(["dump", "nonsense"]) == 2
    assert "no hang is called nonsense: tma_async_producer_phase" in capsys.readouterr().err


def test_whether_a_file_is_whole(tmp_path):
    path = tmp_path / "core"
    assert not whole(path)
    data = raw("exception")
    for cut in (0, 10, 64, len(data) - 1):
        path.write_bytes(data[:cut])
        assert not whole(path)
    path.write_bytes(data)
    assert whole(path)


# ---------------------------------------------------------------- words


def test_words_that_a_dump_does_not_have():
    core = core_of(container_of("x", raw("two_grids")))
    with pytest.raises(SpecError, match="there is no barrier 16 of CTA 0"):
        words_of(core, [("init 1",)] * 20)


def test_words_without_nvcc(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sm90_verify.evidence.hardware.hangs.record.nvcc", lambda: None)
    assert words_main(["--to", str(tmp_path / "x.gz"), "--programs", str(tmp_path)]) == 2
    assert "this needs nvcc" in capsys.readouterr().err


def test_a_hang_of_cutlass_is_built_from_its_headers(tmp_path, monkeypatch):
    monkeypatch.setattr("sm90_verify.evidence.hardware.hangs.record.nvcc", lambda: "/bin/true")
    one = BY_NAME["cutlass_cooperative_reuse"]
    assert isinstance(one, Hang) and one.source == CUTLASS
    with pytest.raises(SpecError, match="give its top folder"):
        build(one, tmp_path, scratch=tmp_path / "kernels", cutlass=str(tmp_path))
    assert path_of(one.name).endswith("cutlass_cooperative_reuse.cudacore.xz")
