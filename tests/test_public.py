"""The public face, as somebody else's project uses it: beside packages of its own, typed, and loaded when needed."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import sm90_verify

ROOT = Path(__file__).resolve().parent.parent
API = (ROOT / "docs" / "api.md").read_text()


def python(code: str, folder: Path, *more: str, executable: str = sys.executable) -> str:
    """What a Python process prints that runs the code in a folder, which comes first on its path."""
    done = subprocess.run([executable, "-c", code, *more], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documented_example() -> str:
    return API.partition("```python\n")[2].partition("```")[0]


# ---------------------------------------------------------------- what is public


def test_all_is_what_the_page_describes():
    assert re.findall(r"^### `(\w+)`$", API, re.MULTILINE) == sorted(
        sm90_verify.__all__, key=lambda name: API.find(f"### `{name}`")
    )


@pytest.mark.parametrize("name", sm90_verify.__all__)
def test_every_name_is_there_and_says_what_it_is(name):
    value = getattr(sm90_verify, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__doc__ and not value.__doc__.startswith(f"{name}(")
    if inspect.isfunction(value):
        shown = re.search(rf"`{name}\((.*?)\)(?:\s->\s\w+)?`", API.partition(f"### `{name}`")[2], re.DOTALL)
        assert shown is not None
        told = re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", re.sub(r"\(\)", "none", shown[1]))
        known = inspect.signature(value).parameters.values()
        assert told == [one.name for one in known if one.name != "command" and one.kind is not one.POSITIONAL_ONLY]


def test_nothing_else_is_there():
    assert sorted(sm90_verify.__all__) == dir(sm90_verify)
    with pytest.raises(AttributeError, match="has no attribute 'pipeline'"):
        sm90_verify.pipeline  # noqa: B018


# ---------------------------------------------------------------- as a user would


def test_the_documented_example_runs(tmp_path):
    (tmp_path / "mine.py").write_text(documented_example())
    done = subprocess.run([sys.executable, "mine.py"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("error[race]: ")
    assert done.stdout.endswith("\nviolated\n")


def test_a_trace_is_replayed_from_its_file_and_from_its_result(tmp_path):
    (tmp_path / "mine.py").write_text(documented_example().partition("\n\nresult = ")[0])
    main = [sys.executable, "-m", "sm90_verify", "spec", "mine.py", "--format", "json", "-o", "trace.json"]
    assert subprocess.run(main, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    code = (
        "from sm90_verify import check, replay, replay_trace\nfrom mine import DoubleBuffer\n"
        "print(replay('trace.json').verdict)\n"
        "trace = check(DoubleBuffer()).trace\n"
        "print(replay_trace(DoubleBuffer(), trace).verdict, replay_trace(DoubleBuffer(), trace).findings[0].id)\n"
    )
    assert python(code, tmp_path) == "violated\nviolated race\n"


def test_a_trace_of_another_pipeline_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text(documented_example().partition("\n\nresult = ")[0])
    code = (
        "from sm90_verify import SpecError, check, replay_trace\nfrom mine import DoubleBuffer\n"
        "trace = check(DoubleBuffer(stages=2)).trace\n"
        "try: replay_trace(DoubleBuffer(stages=1), trace)\n"
        "except SpecError as error: print(error)\n"
    )
    assert "replay it with the parameters of the trace" in python(code, tmp_path)


def test_names_of_ones_own_are_left_alone(tmp_path):
    """A project with packages named spec, checker and kernels uses them, and this one."""
    for name in ("spec", "checker", "kernels"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\n")
    (tmp_path / "mine.py").write_text(
        "import checker, kernels, spec\n" + documented_example().partition("\n\nresult = ")[0]
    )
    code = (
        "import sys\nsys.path.insert(0, '.')\nimport mine, spec, checker, kernels\n"
        "from sm90_verify import check\n"
        "print(spec.MINE, checker.MINE, kernels.MINE, check(mine.DoubleBuffer(late=False)).verdict)\n"
    )
    assert python(code, tmp_path) == "spec checker kernels proved\n"
    command = [sys.executable, "-m", "sm90_verify", "spec", "mine.py:DoubleBuffer", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["trace"]["property"] == "race"


# ---------------------------------------------------------------- what is loaded


def loaded_by(code: str, folder: Path) -> set[str]:
    return set(
        python(f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before)", folder).split()
    )


def test_importing_the_package_loads_nothing(tmp_path):
    mine = {name for name in loaded_by("import sm90_verify", tmp_path) if "sm90_verify" in name}
    assert mine == {"sm90_verify"}
    assert not loaded_by("import sm90_verify", tmp_path) & {"z3", "networkx", "argparse", "importlib.metadata"}


@pytest.mark.parametrize("name", ["Pipeline", "PipelineTmaAsync", "barrier", "Result", "SpecError"])
def test_what_a_pipeline_is_written_with_loads_no_engine(name, tmp_path):
    loaded = loaded_by(f"from sm90_verify import {name}", tmp_path)
    assert not loaded & {"z3", "networkx", "argparse", "numpy"}
    assert not [one for one in loaded if one.startswith(("sm90_verify.engines", "sm90_verify.cli"))]


def test_asking_search_loads_no_z3(tmp_path):
    (tmp_path / "mine.py").write_text(documented_example().partition("\n\nresult = ")[0])
    code = "from sm90_verify import check\nimport mine\ncheck(mine.DoubleBuffer(late=False))"
    assert not loaded_by(code, tmp_path) & {"z3", "cupy"}


# ---------------------------------------------------------------- installed


def can_build() -> bool:
    try:
        return int(metadata.version("setuptools").split(".")[0]) >= 77
    except metadata.PackageNotFoundError:
        return False


def packages_of(interpreter: Path) -> Path:
    (packages,) = interpreter.parent.parent.glob("lib/python*/site-packages")
    return packages


def install(folder: Path, build: str) -> Path:
    """The Python of an environment that holds nothing but a copy of this checkout, built by one call of setuptools."""
    if not can_build():
        pytest.skip("setuptools 77 or later, which builds the wheel, is not installed")
    source = folder / "source"
    for name in ("checker", "spec", "kernels"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    code = f"import sys, setuptools.build_meta as build; print({build})"
    wheel = folder / python(code, source, str(folder)).splitlines()[-1]
    venv.create(folder / "venv", with_pip=False)
    interpreter = folder / "venv" / "bin" / "python"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages_of(interpreter))
    return interpreter


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    return install(tmp_path_factory.mktemp("wheel"), "build.build_wheel(sys.argv[1])")


@pytest.fixture(scope="module")
def editable(tmp_path_factory) -> Path:
    return install(
        tmp_path_factory.mktemp("editable"), "build.build_editable(sys.argv[1], {'editable_mode': 'strict'})"
    )


def test_the_wheel_has_every_file(installed):
    packages = packages_of(installed)
    assert {path.name for path in packages.iterdir() if "dist-info" not in path.name} == {"sm90_verify"}
    for folder, inside in (
        ("checker", "sm90_verify"),
        ("spec", "sm90_verify/spec"),
        ("kernels", "sm90_verify/kernels"),
    ):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".typed", ".cu", ".cuh"):
                assert (packages / inside / path.relative_to(ROOT / folder)).is_file(), f"{path} is not in the wheel"


def test_the_wheel_checks_a_pipeline(installed, tmp_path):
    shutil.copy(ROOT / "examples" / "tma_async.py", tmp_path)
    code = "from sm90_verify import check\nimport tma_async\nprint(check(tma_async.Mainloop()).verdict)"
    assert python(code, tmp_path, executable=str(installed)) == "proved\n"


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_a_users_file_is_type_checked(kind, tmp_path, request):
    """mypy --strict sees the types: it accepts what is right, and knows what is not there."""
    interpreter = request.getfixturevalue(kind)
    (tmp_path / "mine.py").write_text(documented_example())
    (tmp_path / "wrong.py").write_text(
        "from sm90_verify import Result, check, nonsense\nimport mine\n"
        "result: Result = check(mine.DoubleBuffer(), engines='search')\nverdict: int = result.verdict\n"
    )
    for path in (ROOT / "examples").glob("*.py"):
        if "-> Body" in path.read_text():
            shutil.copy(path, tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(interpreter), "--no-incremental"]
    done = subprocess.run(
        [*command, *sorted(path.name for path in tmp_path.glob("*.py"))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    wrong = [line.split(": error: ") for line in done.stdout.splitlines() if ": error: " in line]
    assert {place for place, _ in wrong} == {"wrong.py:1", "wrong.py:3", "wrong.py:4"}, done.stdout
