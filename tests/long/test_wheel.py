"""`pip wheel .`, installed in an empty virtual environment: the package and the program.

The wheel is made in build/, so that nothing is compiled twice; `pip install .` by itself is in tests/long.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    words = [str(c) for c in command]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    made_here = ("--no-build-isolation", "--no-deps", f"--config-settings=build-dir={ROOT / 'build'}")
    run(*pip, "wheel", ROOT, *made_here, "-w", folder)
    (file,) = folder.glob("headlens-*.whl")
    return file


def test_what_the_wheel_holds(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (n for n in names if n.endswith("METADATA"))
        text = archive.read(metadata).decode()
    modules = {p.name for p in (ROOT / "python/headlens").glob("*.py*")} | {"py.typed"}
    assert {f"headlens/{name}" for name in modules} <= set(names)
    assert sum(name.startswith("headlens/_core.") and name.endswith(".so") for name in names) == 1
    assert any(name.endswith(".data/scripts/headlens") for name in names)
    # Neither tests nor headers nor static libraries.
    outside = [n for n in names if not n.startswith("headlens/") and ".dist-info/" not in n]
    assert len(outside) == 1, outside
    for line in ("Requires-Dist: numpy", "Requires-Dist: scikit-learn", "Requires-Python: >=3.10"):
        assert line in text


def test_the_wheel_in_an_empty_environment(wheel, tmp_path):
    """Only headlens is installed; NumPy and scikit-learn are those of the tests, by reference."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    site = pathlib.Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    )
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    (site / "tests.pth").write_text(sysconfig.get_paths()["purelib"])
    code = f"""
import headlens, pathlib
assert pathlib.Path(headlens.__file__).is_relative_to({str(site)!r}), headlens.__file__
X, y = headlens.generate("correlation", dim=3, keys=4, count=100)
model = headlens.RandomFeatureAttentionRegressor(heads=30, random_state=0).fit(X, y)
model.save("model.hlm")
print(headlens.__version__)
"""
    version = run(python, "-c", code, cwd=tmp_path).strip()
    program = tmp_path / "venv/bin/headlens"
    assert run(program, "--version").strip() == f"headlens {version}"
    run(program, "generate", "correlation", "--dim", 3, "--keys", 4, "--count", 100, "-o", tmp_path / "d.npz")
    run(program, "fit", tmp_path / "d.npz", "--heads", 30, "-o", tmp_path / "program.hlm")
    assert (tmp_path / "program.hlm").read_bytes() == (tmp_path / "model.hlm").read_bytes()
