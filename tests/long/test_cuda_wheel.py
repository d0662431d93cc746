"""`pip wheel python/cuda`: the CUDA back end as a package of its own, which package and program of headlens find.

Made in build/, as that of headlens. The back end needs no device to be found, and says then that there is none.
"""

import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from test_wheel import ROOT, run

NVCC = shutil.which("nvcc") or shutil.which("nvcc", path=f"/usr/local/cuda/bin:{ROOT / '.cuda/bin'}")
pytestmark = pytest.mark.skipif(not NVCC, reason="no nvcc: scripts/setup cuda installs one")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    made_here = ("--no-build-isolation", "--no-deps", f"--config-settings=build-dir={ROOT / 'build'}")
    for source in (ROOT / "python/cuda", ROOT):
        run(*pip, "wheel", source, *made_here, "-w", folder)
    return sorted(folder.glob("*.whl"))


def test_what_the_wheel_holds(wheels):
    (file,) = (w for w in wheels if w.name.startswith("headlens_cuda-"))
    with zipfile.ZipFile(file) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
        (metadata,) = (n for n in archive.namelist() if n.endswith("METADATA"))
        text = archive.read(metadata).decode()
    assert names == {"headlens_cuda/__init__.py", "headlens_cuda/libheadlens_cuda.so"}
    assert "py3-none-" in file.name  # nothing in it belongs to one version of Python
    for line in ("Requires-Dist: headlens", "Requires-Dist: nvidia-cublas", "Requires-Dist: nvidia-cusolver"):
        assert line in text


def test_package_and_program_find_the_back_end(wheels, tmp_path):
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python, program = tmp_path / "venv/bin/python", tmp_path / "venv/bin/headlens"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    (pathlib.Path(site) / "tests.pth").write_text(sysconfig.get_paths()["purelib"])
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index")
    (plain,) = (w for w in wheels if not w.name.startswith("headlens_cuda-"))
    (plugin,) = (w for w in wheels if w.name.startswith("headlens_cuda-"))
    ask = """
import headlens
X, y = headlens.generate("correlation", dim=3, keys=4, count=50)
try:
    headlens.RandomFeatureAttentionRegressor(heads=5, backend="cuda").fit(X, y)
    print("fitted")
except Exception as error:
    print(error)
"""
    run(*pip, plain)
    for said in (run(program, "info"), run(python, "-c", ask)):
        assert "libheadlens_cuda.so is not" in said
    run(*pip, plugin)
    for said in (run(program, "info"), run(python, "-c", ask)):
        assert "is not beside" not in said and "another build" not in said
        assert any(words in said for words in ("no driver", "driver shows no device", "CUDA 1", "fitted"))


def test_the_libraries_of_cuda_are_looked_for_beside_the_package(wheels, tmp_path):
    (file,) = (w for w in wheels if w.name.startswith("headlens_cuda-"))
    with zipfile.ZipFile(file) as archive:
        library = archive.extract("headlens_cuda/libheadlens_cuda.so", tmp_path)
    words = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "$ORIGIN/../nvidia/cu13/lib" in words
