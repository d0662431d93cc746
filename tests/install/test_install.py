"""`cmake --install`, then the CMake project of docs/cpp.md, which finds the package, and the installed program."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/cpp.md"
sys.path.insert(0, str(ROOT / "tests/cli"))
from pages import blocks, same_text, steps  # noqa: E402


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def write_project(folder):
    """CMakeLists.txt and main.cpp, as docs/cpp.md has them; returns what the page says the program prints."""
    folder.mkdir()
    found = {}
    for language, _, lines, _ in blocks(PAGE.read_text().splitlines()):
        found[language] = "\n".join(lines) + "\n"
    (folder / "CMakeLists.txt").write_text(found["cmake"])
    (folder / "main.cpp").write_text(found["cpp"])
    return next("\n".join(step.printed) for step in steps(PAGE) if step.code == "build/program")


def test_installed_package_and_program(tmp_path):
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    run("cmake", "--install", ROOT / "build", "--prefix", prefix)
    shown = write_project(tmp_path / "project")
    options = ("-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "-S", tmp_path / "project", "-B", build, *options)
    run("cmake", "--build", build)
    printed = run(build / "program")
    assert same_text(shown, printed), f"{printed}\nwas printed, but docs/cpp.md shows\n{shown}"
    assert "headlens" in run(prefix / "bin/headlens", "--version")
    for file in (
        "share/man/man1/headlens.1",
        "share/bash-completion/completions/headlens",
        "share/zsh/site-functions/_headlens",
    ):
        assert (prefix / file).stat().st_size > 500, file


def test_installed_headers_need_no_third_party(tmp_path):
    """Every public header compiles alone, with the standard library only."""
    options = ("-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-I", ROOT / "include", "-nostdinc++")

    def compile_alone(header):
        unit = tmp_path / f"{header.stem}.cpp"
        unit.write_text(f'#include "headlens/{header.name}"\n')
        run("g++", *options, "-isystem", *cxx_folders(), unit)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as team:
        list(team.map(compile_alone, sorted((ROOT / "include/headlens").glob("*.hpp"))))


def cxx_folders():
    """The folders of the standard library itself, and nothing below /usr/include that a package put there."""
    version = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True).stdout.strip()
    machine = subprocess.run(["g++", "-dumpmachine"], capture_output=True, text=True).stdout.strip()
    return f"/usr/include/c++/{version}", "-isystem", f"/usr/include/{machine}/c++/{version}"
