"""How kernels are compiled, told with a stand-in for CuPy."""

from __future__ import annotations

from types import SimpleNamespace

from sm90_verify.gpu import device


def test_kernels_are_compiled_again_when_a_header_has_changed(monkeypatch, tmp_path):
    """CuPy keeps them by their own text and their options."""
    seen = []
    cupy = SimpleNamespace(RawModule=lambda code, options: seen.append((code, options)))
    monkeypatch.setattr(device, "_cupy", lambda: cupy)
    monkeypatch.setattr(device, "sources", lambda: tmp_path)
    for text in ("a", "b", "a"):
        (tmp_path / "x.cuh").write_text(text)
        device.Module("source", {"STAGES": 2})
    first, second, third = seen
    assert first == third != second
    assert first[0] == "source" and {"-arch=sm_90a", "-DSTAGES=2", f"-I{tmp_path}"} <= set(first[1])
