"""`cmake --install`, then a CMake project of its own that finds the package, and the installed program."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_installed_package_and_program(tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", ROOT / "build", "--prefix", prefix)
    source = ROOT / "tests/install/consumer"
    run(
        "cmake",
        "-S",
        source,
        "-B",
        tmp_path / "build",
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Release",
    )
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build/consumer").startswith("nmse")
    assert "headlens" in run(prefix / "bin/headlens", "--version")
    for file in (
        "share/man/man1/headlens.1",
        "share/bash-completion/completions/headlens",
        "share/zsh/site-functions/_headlens",
    ):
        assert (prefix / file).stat().st_size > 500, file


def test_installed_headers_need_no_third_party(tmp_path):
    """Every public header compiles alone, with the standard library only."""
    for header in sorted((ROOT / "include/headlens").glob("*.hpp")):
        unit = tmp_path / "unit.cpp"
        unit.write_text(f'#include "headlens/{header.name}"\n')
        run(
            "g++",
            "-std=c++20",
            "-fsyntax-only",
            "-Wall",
            "-Werror",
            "-I",
            ROOT / "include",
            "-nostdinc++",
            "-isystem",
            *cxx_folders(),
            unit,
        )


def cxx_folders():
    """The folders of the standard library itself, and nothing below /usr/include that a package put there."""
    version = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True).stdout.strip()
    machine = subprocess.run(["g++", "-dumpmachine"], capture_output=True, text=True).stdout.strip()
    return f"/usr/include/c++/{version}", "-isystem", f"/usr/include/{machine}/c++/{version}"
