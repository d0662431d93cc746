"""The package itself: what importing costs and touches, its examples, its types, the core of the BLAS."""

import ast
import doctest
import importlib
import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import headlens
import pytest
from headlens import _core
from headlens._blas_core import wanted_core

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "python/headlens"
PAGE = SOURCE.parents[1] / "docs/python.md"
COMPILED_OR_GUEST = {"_core", "_torch"}
MODULES = [m.name for m in pkgutil.iter_modules(headlens.__path__) if m.name not in COMPILED_OR_GUEST]


def run_python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_is_cheap_and_needs_nothing():
    heavy = "{'sklearn', 'scipy', 'matplotlib', 'torch', 'jax', 'tqdm', 'joblib'}"
    assert run_python(f"import sys, headlens; print({heavy} & set(sys.modules))") == "set()"


@pytest.mark.parametrize("name", ["", *MODULES])
def test_examples_of_the_docstrings(name):
    module = importlib.import_module(f"headlens.{name}" if name else "headlens")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_examples_of_the_page_about_python(tmp_path, monkeypatch):
    """docs/python.md, its blocks in order, in one interpreter."""
    monkeypatch.chdir(tmp_path)
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", PAGE.read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 30
    assert doctest.DocTestRunner().run(test).failed == 0
    assert (tmp_path / "recovery.png").stat().st_size > 0


def test_examples_of_the_page_about_sets():
    page = PAGE.with_name("sets.md")
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert len(test.examples) > 10
    assert doctest.DocTestRunner().run(test).failed == 0


def test_everything_public_has_a_docstring_and_the_large_things_an_example():
    for name in headlens.__all__:
        thing = getattr(headlens, name)
        assert thing.__doc__, name
        if name not in (
            "Certificate",
            "Comparison",
            "Explanation",
            "Fourier",
            "NumericalWarning",
            "Recovery",
            "Theory",
        ):
            assert ">>>" in thing.__doc__, name
        if isinstance(thing, type):
            for method, value in vars(thing).items():
                if callable(value) and not method.startswith("_"):
                    assert value.__doc__ or getattr(super(thing, thing), method, None), f"{name}.{method}"
    assert set(headlens.__all__) <= set(dir(headlens))
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        headlens.fitt  # noqa: B018


def public_names(scope):
    return {n for n in scope if not n.startswith("_") or n in ("__version__", "__getstate__", "__setstate__")}


def test_the_stub_names_what_the_extension_has():
    """And nothing else: functions, classes, and the members of each."""
    tree = ast.parse((SOURCE / "_core.pyi").read_text())
    stub, members = set(), {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            stub.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            stub.add(node.target.id)
        if isinstance(node, ast.ClassDef):
            members[node.name] = {
                part.name if isinstance(part, ast.FunctionDef) else part.target.id for part in node.body
            }
    assert stub == public_names(vars(_core))
    for name, listed in members.items():
        assert listed == public_names(vars(getattr(_core, name))), name


CPUINFO = """processor\t: 0
vendor_id\t: {vendor}
cpu family\t: {family}
model\t\t: {model}
flags\t\t: fpu {flags}

processor\t: 1
"""
AVX512 = "avx2 fma avx512f avx512dq avx512vl avx512bw"


@pytest.mark.parametrize(
    "vendor,family,model,flags,core",
    [
        ("GenuineIntel", 6, 207, AVX512, "SkylakeX"),  # Emerald Rapids, younger than OpenBLAS 0.3.21
        ("GenuineIntel", 6, 143, AVX512, ""),  # Sapphire Rapids, known
        ("GenuineIntel", 6, 85, AVX512, ""),
        ("GenuineIntel", 6, 197, "avx2 fma", "Haswell"),
        ("GenuineIntel", 19, 1, AVX512, "SkylakeX"),
        ("GenuineIntel", 6, 207, "sse2", ""),
        ("AuthenticAMD", 26, 2, AVX512, "SkylakeX"),  # Zen 5
        ("AuthenticAMD", 25, 17, AVX512, ""),  # Zen 4
    ],
)
def test_core_of_the_blas(vendor, family, model, flags, core):
    assert wanted_core(CPUINFO.format(vendor=vendor, family=family, model=model, flags=flags)) == core


def test_no_core_without_a_known_processor():
    assert wanted_core("") == "" and wanted_core("processor : 0\nCPU part : 0xd0c\n") == ""


def test_the_core_fits_and_the_environment_is_left_alone():
    code = "import os, headlens; print(headlens.info()['blas_core_fits'], 'OPENBLAS_CORETYPE' in os.environ)"
    assert run_python(code, OPENBLAS_CORETYPE="") == "True True"
    code = "import os, headlens; print(headlens.info()['blas_core'], os.environ['OPENBLAS_CORETYPE'])"
    assert run_python(code, OPENBLAS_CORETYPE="Haswell") == "Haswell Haswell"


def test_the_core_is_set_before_the_extension_loads(tmp_path):
    """On a processor that OpenBLAS does not know, as its /proc/cpuinfo would tell."""
    fake = tmp_path / "sitecustomize.py"
    text = CPUINFO.format(vendor="GenuineIntel", family=6, model=207, flags="avx2 fma")
    fake.write_text(
        "import builtins, io\nreal = builtins.open\n"
        f"def fake(path, *a, **k):\n    return io.StringIO({text!r}) if path == '/proc/cpuinfo' else real(path, *a, **k)\n"
        "builtins.open = fake\n"
    )
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    if "avx2" not in flags:
        pytest.skip("this processor has no AVX2")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    code = "import headlens, os; print(headlens.info()['blas_core'], os.environ.get('OPENBLAS_CORETYPE'))"
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"} | {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.split() == ["Haswell", "None"], done.stderr
