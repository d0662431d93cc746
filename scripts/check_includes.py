"""A folder of src/ includes only folders above it; apps, python and the public headers include public headers only."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = {  # as in src/CMakeLists.txt
    "base": set(),
    "comm": {"base"},
    "linalg": {"base"},
    "options": {"base"},
    "io": {"options", "base"},
    "data": {"comm", "io", "base"},
    "attention": {"data", "io", "linalg", "base"},
    "match": {"attention", "io", "linalg", "base"},
    "hardness": {"attention", "io", "linalg", "base"},
    "features": {"comm", "data", "linalg", "base"},
    "recover": {"backend", "comm", "hardness", "attention", "data", "io", "linalg", "base"},
    "refit": {"recover", "match", "backend", "attention", "io", "linalg", "base"},
    "backend": {"comm", "linalg", "base"},
    "cpu": {"backend", "comm", "attention", "features", "data", "io", "linalg", "base"},
    "cuda": {"backend", "comm", "features", "data", "linalg", "base"},
    "distributed": {"backend", "comm", "features", "data", "linalg", "base"},
    "mpi": {"comm", "base"},
    "kernels": {"backend", "comm", "features", "data", "linalg", "base"},
    "theory": {"data", "linalg", "base"},
    "fit": {"backend", "comm", "features", "linalg", "data", "io", "base"},
    "automatic": {"backend", "comm", "features", "linalg", "data", "io", "base"},
    "predict": {"backend", "comm", "data", "linalg", "base"},
    "study": {
        "fit",
        "predict",
        "recover",
        "theory",
        "comm",
        "hardness",
        "attention",
        "features",
        "data",
        "io",
        "linalg",
        "base",
    },
    "report": {"study", "theory", "refit", "match", "linalg", "io", "base"},
}
SOURCES = {".cpp", ".hpp", ".cu", ".cuh"}
# Rooms inside a folder: the other rooms that each may include. Files in no room may include every room of their folder.
ROOMS = {
    "cpu/products": set(),
    "cpu/features": set(),
    "cpu/kernels": {"cpu/features"},
    "cpu/design": {"cpu/products", "cpu/features", "cpu/kernels"},
    "cpu/scorers": {"cpu/features", "cpu/kernels", "cpu/design"},
    "cuda/features": set(),
    "cuda/products": set(),
    "cuda/design": {"cuda/features", "cuda/products"},
    "cuda/kernels": {"cuda/design", "cuda/products"},
    "cuda/scorers": {"cuda/features", "cuda/products", "cuda/kernels", "cuda/design"},
    "fit/ridge": set(),
    "fit/convex": set(),
}
THIRD_PARTY = re.compile(
    r"^(fmt|CLI|nlohmann|zip|cblas|Clp_C_Interface|Random123|boost|toml\+\+|SQLiteCpp|sqlite3|nanobind)\b"
)


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := re.match(r'\s*#include\s+[<"]([^>"]+)[>"]', line):
            yield number, found.group(1)


def room_of(name):
    return "/".join(name.split("/")[:2])


def problems():
    for path in sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in SOURCES):
        folder = path.relative_to(ROOT / "src").parts[0]
        for number, name in includes(path):
            other = name.split("/")[0]
            if other in ALLOWED and other != folder and other not in ALLOWED[folder]:
                yield f"{path.relative_to(ROOT)}:{number}: {folder} must not include {other}"
            room, other_room = room_of(path.relative_to(ROOT / "src").as_posix()), room_of(name)
            if room in ROOMS and other_room in ROOMS and other_room not in ROOMS[room] | {room}:
                yield f"{path.relative_to(ROOT)}:{number}: {room} must not include {other_room}"
    for path in sorted((ROOT / "include").rglob("*.hpp")):
        for number, name in includes(path):
            if name.split("/")[0] in ALLOWED or THIRD_PARTY.match(name):
                yield f"{path.relative_to(ROOT)}:{number}: a public header must not include {name}"
    for folder in ("apps", "python"):
        for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
            for number, name in includes(path):
                if name.startswith("CLI/") and path.name != "parser.cpp":
                    yield f"{path.relative_to(ROOT)}:{number}: only parser.cpp includes CLI11, which is slow to compile"
                if name.split("/")[0] in ALLOWED:
                    yield f"{path.relative_to(ROOT)}:{number}: {folder} must include public headers only, not {name}"


found = list(problems())
print("\n".join(found) or "includes go one way")
sys.exit(bool(found))
