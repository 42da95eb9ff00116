"""What builds and runs CUTLASS kernels for their logs (checker/evidence/hardware/cutlass.py), without a GPU."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from log_edits import text_of

from sm90_verify.evidence.frontier.box import Configuration
from sm90_verify.evidence.hardware import cutlass
from sm90_verify.evidence.hardware.cutlass import KERNELS
from sm90_verify.spec.errors import SpecError


def program(folder: Path, text: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_outcomes_of_a_program(tmp_path: Path) -> None:
    assert cutlass.run(program(tmp_path, 'echo "$@"'), (1, 2, 3)) == ("ok", "1 2 3\n")
    assert cutlass.run(program(tmp_path, "echo 7 elements are wrong; exit 1"), ()) == (
        "wrong",
        "7 elements are wrong\n",
    )
    assert cutlass.run(program(tmp_path, "exec sleep 60"), (), seconds=0.2) == ("hang", "")
    with pytest.raises(SpecError, match="not run: CUDA: no device"):
        cutlass.run(program(tmp_path, "echo CUDA: no device; exit 3"), ())
    with pytest.raises(SpecError, match="exit code 9"):
        cutlass.run(program(tmp_path, "exit 9"), ())


def test_the_whole_log_is_kept(tmp_path: Path) -> None:
    """The kernel prints what there is when its first thread ends, and the program prints the whole log afterwards."""
    text = text_of("ws_fp8_s7")
    head, rest = text.split("\n", 1)
    part = rest[: rest.index("\n", 2000) + 1] + "synclog end\n"
    printed = tmp_path / "printed"
    printed.write_text(f"{head}\n{part}{rest}0 elements are wrong\n")
    kept = cutlass.record("ws_fp8_s7", tmp_path / "logs", program=program(tmp_path, f"cat {printed}"))
    assert lzma.decompress(kept.read_bytes()).decode() == text


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 3 elements are wrong; exit 1", "ws_fp8_s7: 3 elements are wrong"),
        ("echo '# kind=0'; echo synclog start", "no whole synclog"),
    ],
)
def test_no_log_is_kept_of_a_kernel_that_is_wrong(script: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        cutlass.record("ws_fp8_s7", tmp_path / "logs", program=program(tmp_path, script))
    assert not (tmp_path / "logs").exists()


def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cutlass.main(["log", "ws_mixed", "--to", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("pip install --no-deps nvidia-cutlass==4.2.0.0") == 1
    assert cutlass.main(["--cutlass", str(tmp_path), "log", "ws_mixed", "--to", str(tmp_path)]) == 2
    assert "has no include/cutlass/arch/synclog.hpp" in capsys.readouterr().err
    assert cutlass.main(["log", "nothing", "--to", str(tmp_path)]) == 2
    assert "no kernel is called nothing" in capsys.readouterr().err
    headers(tmp_path)
    monkeypatch.setattr(cutlass, "nvcc", lambda: None)
    assert cutlass.main(["--cutlass", str(tmp_path), "log", "ws_mixed", "--to", str(tmp_path)]) == 2
    assert "needs nvcc" in capsys.readouterr().err


def headers(folder: Path) -> None:
    (folder / "include" / "cutlass" / "arch").mkdir(parents=True)
    (folder / "include" / "cutlass" / "arch" / "synclog.hpp").touch()
    (folder / "tools" / "util" / "include").mkdir(parents=True)


def test_macros_and_folders_reach_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers(tmp_path)
    seen = tmp_path / "seen"
    compiler = program(tmp_path, f'echo "$@" > {seen}')
    monkeypatch.setattr(cutlass, "nvcc", lambda: str(compiler))
    cutlass.build("cutlass_synclog.cu", {"SCHEDULE": 2}, tmp_path / "x", options=cutlass.LOGGING, cutlass=str(tmp_path))
    words = seen.read_text().split()
    assert {"-DSCHEDULE=2", "-rdc=true", f"-I{tmp_path}/include", f"{tmp_path}/x"} <= {*words}
    assert any(Path(word).name == "cutlass_synclog.cu" and Path(word).is_file() for word in words)
    program(tmp_path, "echo 'x.cu(3): error: no such thing' >&2; exit 2")
    with pytest.raises(SpecError, match=r"nvcc refuses cutlass_synclog\.cu: x\.cu"):
        cutlass.build("cutlass_synclog.cu", {}, tmp_path / "x", cutlass=str(tmp_path))


def test_macros_of_the_source_are_those_of_the_kernels() -> None:
    source = (cutlass.sources() / "cutlass_synclog.cu").read_text()
    for name, kernel in KERNELS.items():
        for macro in kernel.macros:
            assert macro in source, (name, macro)


@pytest.mark.parametrize(
    ("point", "macros"),
    [
        (
            Configuration("cooperative", 4, 4, False, True, 2, 2, 16384, 32768),
            {
                "KIND": 1,
                "EPI_M": 128,
                "EPI_N": 64,
                "REUSE": "true",
                "ELEMENT_C": "cutlass::half_t",
                "ELEMENT_D": "float",
            },
        ),
        (
            Configuration("pingpong", 4, 2, True, False, 4, 2, 8192, 8192),
            {"KIND": 2, "EPI_M": 64, "EPI_N": 64, "REUSE": "false", "DELAY": "true", "STAGES_C": 4, "STAGES_D": 2},
        ),
    ],
)
def test_configuration_of_an_epilogue_as_macros(point: Configuration, macros: dict[str, int | str]) -> None:
    found_macros = cutlass.epilogue_macros(point)
    assert {name: found_macros[name] for name in macros} == macros
    m, n, _, ctas, _ = cutlass.epilogue_sizes(point)
    assert m // 128 * (n // 128) == ctas * 2


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (Configuration("pingpong", 4, 2, False, True, 1, 1, 32768, 32768), "give 2 to 8"),
        (Configuration("cooperative", 4, 2, False, True, 3, 1, 8192, 8192), "give 1 to 8"),
        (Configuration("cooperative", 4, 2, False, True, 4, 1, 4096, 8192), "not 128 x 32 elements"),
        (Configuration("ws", 4, 2, False, True, 4, 2, 8192, 8192), "one tile"),
        (Configuration("cooperative", 4, 2, False, True, 4, "forever", 8192, 8192), "divisor of 64"),
    ],
)
def test_epilogues_that_no_kernel_has(point: Configuration, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        cutlass.epilogue_macros(point)
        cutlass.epilogue_sizes(point)
