"""CONTRIBUTING's map names every file of the code, and no file that is not there.

A section of the map opens with its folder in bold; the first column of its table names the files, with or without an ending.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("include", "src", "apps", "python")
ENDINGS = {".cpp", ".hpp", ".cu", ".cuh", ".py", ".pyi"}


def files_by_folder(root):
    """{folder: stems of its source files}, for every folder that has some."""
    found = {}
    for path in (p for room in ROOMS for p in (root / room).rglob("*")):
        if path.suffix in ENDINGS and "__pycache__" not in path.parts:
            found.setdefault(str(path.parent.relative_to(root)), set()).add(path.stem)
    return found


def map_by_folder(text):
    """{folder: names in the first column of its table}, in the section "The map of the code"."""
    section = re.search(r"^## The map of the code\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    found, folder = {}, None
    for line in section.group(1).splitlines() if section else []:
        if heading := re.match(r"\*\*([\w/]+)\*\*", line):
            folder = heading.group(1)
            found[folder] = set()
        elif folder and (row := re.match(r"\|(.*?)\|", line)):
            for name in re.findall(r"`([\w./]+)`", row.group(1)):  # `ridge/direct` is in a room of the folder
                room, _, stem = f"{folder}/{name}".rpartition("/")
                found.setdefault(room, set()).add(stem.split(".")[0])
    return found


def problems(root):
    files, named = files_by_folder(root), map_by_folder((root / "CONTRIBUTING.md").read_text())
    for folder in sorted(files.keys() | (named.keys() - {"examples"})):
        missing, gone = (
            a.get(folder, set()) - b.get(folder, set()) for a, b in ((files, named), (named, files))
        )
        yield from (f"CONTRIBUTING.md: the map does not name {folder}/{name}" for name in sorted(missing))
        yield from (
            f"CONTRIBUTING.md: the map names {folder}/{name}, which is not there" for name in sorted(gone)
        )


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
    print("\n".join(found) or "the map names every file")
    sys.exit(bool(found))
