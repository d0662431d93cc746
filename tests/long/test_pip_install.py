"""`pip install .` on a fresh clone, by itself: build tools and dependencies from PyPI, everything compiled."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    words = [str(c) for c in command]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False, **options)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_pip_install_on_a_fresh_clone(tmp_path, report):
    clone, python = tmp_path / "headlens", tmp_path / "venv/bin/python"
    run("git", "clone", "--quiet", ROOT, clone)
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    probe = subprocess.run(
        [python, "-m", "pip", "download", "--no-deps", "-d", tmp_path, "nanobind"],
        capture_output=True,
        check=False,
    )
    if probe.returncode != 0:
        pytest.skip("PyPI cannot be reached")
    run(python, "-m", "pip", "install", clone)
    code = "import headlens; X, y = headlens.generate('power-mean', count=50); "
    code += "print(headlens.AttentionKernelRidge().fit(X, y).predict(X).shape)"
    assert run(python, "-c", code, cwd=tmp_path).strip() == "(50,)"
    assert "headlens" in run(tmp_path / "venv/bin/headlens", "--version")
    listed = run(python, "-m", "pip", "list", "--format", "freeze")
    report("pip install . brought " + ", ".join(line for line in listed.split() if "pip" not in line))
