"""The commands of README.md and docs/*.md: reading them from a page, running them, comparing what they print.

A block, indented by four spaces or fenced, holds lines `$ command`, each followed by what the command prints; nothing
shown means that only the exit status is compared. A command ends with status 0 unless its line says `# exits with N`.
```python blocks run in one interpreter per page, and an indented block right after one holds what the block prints.
`<!-- slow -->` before a block keeps the block out of `make test`; tests/long runs the whole page.

    .venv/bin/python tests/cli/pages.py README.md docs/theory.md      # writes into the pages what is printed now
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from binary import BINARY, ROOT

sys.path.append(os.environ.get("HEADLENS_PACKAGE", str(ROOT / "build/python")))  # for the Python blocks
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Commands of the pages that are not run, by how they begin, and why.
NOT_RUN = {
    "make": "builds what the tests already run, or benchmarks for hours",
    ".venv/bin/python bench/": "a benchmark, which needs rivals that the tests do not install",
    "export PATH=": "the tests put the program first in the path",
    "pip install": "tests/install and tests/long/test_pip_install.py install the package",
    "cmake": "tests/install/test_install.py installs the library and builds the program of docs/cpp.md",
    "build/program": "tests/install/test_install.py runs it",
    "source <(headlens completion": "changes the shell of the reader",
    "headlens completion zsh >": "writes into the shell's own folder",
    "headlens man |": "opens a pager",
    "headlens inspect --weights-q WQ.npy": "needs the weights of a published model, which are not kept here",
    "headlens inspect --weights MODEL.safetensors": "needs the weights of a published model, which are not kept here",
    "for study in models keys mean mixture ordered": "hours of two cores; the small twins of these studies run",
    "headlens study run studies/query.toml -o full.db": "hours of two cores; its small twin runs",
    "headlens generate examples --layer rxn64.npz": "needs the layer of that model",
    "headlens recover rxn64-examples.npz": "needs the examples of that layer",
    "headlens generate examples --layer rxn.npz": "needs the layer of that model",
    "headlens recover rxn-examples.npz": "needs the examples of that layer",
}


@dataclass
class Step:
    """A command or a Python block, and what it should print."""

    language: str  # "shell" or "python"
    code: str
    line: int  # of the page, from 1
    slow: bool
    printed: list[str] = field(default_factory=list)
    first: int = 0  # line of the page, from 0, where `printed` begins

    @property
    def status(self):
        found = re.search(r"# exits with (\d+)$", self.code)
        return int(found.group(1)) if found else 0

    @property
    def why_not_run(self):
        if self.language == "python":
            return None
        return next((why for start, why in NOT_RUN.items() if self.code.startswith(start)), None)


def blocks(lines):
    """(language, number of the first line from 0, lines as written, slow), indented and fenced, in order."""
    slow, i = False, 0
    while i < len(lines):
        line = lines[i]
        fence = re.match(r"```(\w*)", line)
        if fence:
            end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
            yield fence.group(1), i + 1, lines[i + 1 : end], slow
            slow, i = False, end + 1
        elif line.startswith("    ") and (i == 0 or not lines[i - 1].strip()):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            yield "", i, lines[i:end], slow
            slow, i = False, end
        else:
            if line.strip():
                slow = line.strip() == "<!-- slow -->"
            i += 1


def steps(page):
    """All commands and Python blocks of a page, in order."""
    found, python_ended = [], None
    for language, first, text, slow in blocks(page.read_text().splitlines()):
        if language == "python":
            found.append(Step("python", "\n".join(text), first + 1, slow))
            python_ended = first + len(text)  # the closing fence
        elif language in ("", "sh", "console"):
            if any(line.lstrip().startswith("$ ") for line in text):
                found += shell_steps(text, first, slow)
            elif python_ended is not None and first == python_ended + 2 and not language:
                found[-1].printed, found[-1].first = [line[4:] for line in text], first
    return found


def shell_steps(text, first, slow):
    found = []
    for number, line in enumerate(line.strip() if line.lstrip().startswith("$ ") else line for line in text):
        if line.startswith("$ "):
            found.append(Step("shell", line[2:], first + number + 1, slow, first=first + number + 1))
        elif found and found[-1].code.endswith("\\"):
            found[-1].code += "\n" + line.strip()
            found[-1].first = first + number + 1
        elif found:
            found[-1].printed.append(line.removeprefix("    "))
    return found


@contextlib.contextmanager
def in_folder(folder):
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Session:
    """One page's folder, interpreter and shell. Files stay from one command to the next."""

    def __init__(self, folder):
        self.folder, self.names = folder, {}
        for name in ("studies", "examples", ".venv"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "docs/images").mkdir(parents=True)
        self.environment = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}"}

    def run(self, step):
        """What the step prints, and its exit status. Standard error is printed too, as on a terminal."""
        if step.language == "python":
            printed = io.StringIO()
            with in_folder(self.folder), contextlib.redirect_stdout(printed):
                exec(step.code, self.names)
            return printed.getvalue(), 0
        done = subprocess.run(
            ["bash", "-c", step.code],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return PROGRESS.sub("", done.stdout), done.returncode


NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
# What a command says of its progress once a minute, which only a busy machine shows.
PROGRESS = re.compile(r"^headlens: [^\n]*, \d+ (?:min \d+ s|h \d+ min)\b[^\n]*\n", re.MULTILINE)
TIME = re.compile(r"\b\d+(?:\.\d+)?\s+(?:min|s|ms|us)\b")
ROUNDING = sys.float_info.epsilon**0.5


def unit(text):
    """One unit in the last digit that is printed."""
    mantissa, _, exponent = text.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def same_number(expected, found):
    """Whole numbers are equal. Printed digits agree but for a unit in the last of them, since two values however
    close may be rounded apart. What rounding leaves, below the root of the machine's epsilon, has no digits that another
    processor or number of threads would repeat: such numbers agree within a factor of ten."""
    if re.fullmatch(r"[+-]?\d+", expected):
        return expected == found
    a, b = float(expected), float(found)
    if 0 < abs(a) < ROUNDING:
        return abs(a) / 10 <= abs(b) <= abs(a) * 10
    return abs(a - b) <= 1.001 * unit(expected)


def same_word(expected, found):
    """Equal but for the numbers inside. `0.0595...` shows the first digits of a number."""
    shown = re.split(f"({NUMBER}(?:\\.\\.\\.)?)", expected)
    got = re.split(f"({NUMBER})", found)
    return shown[::2] == got[::2] and all(
        same_number(a.removesuffix("..."), b) for a, b in zip(shown[1::2], got[1::2], strict=True)
    )


def words(text):
    """Times are not compared: they become one word."""
    return TIME.sub("<time>", text).split()


def same_text(expected, found):
    """Word by word, however the lines are broken; the word `...` stands for any words."""
    pieces, rest = [[]], words(found)
    for word in words(expected):
        if word == "...":
            pieces.append([])
        else:
            pieces[-1].append(word)

    def fits(piece, at):
        return at >= 0 and len(rest) >= at + len(piece) and all(map(same_word, piece, rest[at:]))

    if len(pieces) == 1:
        return len(rest) == len(pieces[0]) and fits(pieces[0], 0)
    at = len(pieces[0])
    if not fits(pieces[0], 0):
        return False
    for piece in pieces[1:-1]:
        at = next((i for i in range(at, len(rest)) if fits(piece, i)), None)
        if at is None:
            return False
        at += len(piece)
    last = len(rest) - len(pieces[-1])
    return last >= at and fits(pieces[-1], last)


def check(page, folder, slow):
    """Runs a page from top to bottom, without its slow blocks unless asked for."""
    session = Session(folder)
    for step in steps(page):
        if step.why_not_run or (step.slow and not slow):
            continue
        found, status = session.run(step)
        where = f"{page.name}:{step.line}: {step.code}"
        assert status == step.status, f"{where}\nexit status {status}\n{found}"
        shown = "\n".join(step.printed)
        assert not shown or same_text(shown, found), (
            f"{where}\n{found}\nwas printed, but the page shows\n{shown}"
        )


def refreshed(step, found):
    """What the page should show instead: lines before and after a `...` stay as many as they were."""
    lines, shown = found.rstrip("\n").splitlines(), step.printed
    gaps = [i for i, line in enumerate(shown) if line.strip() == "..."]
    if not gaps:
        return lines
    if len(gaps) > 1:
        raise SystemExit(f"line {step.line}: several '...', please edit by hand; the output is\n{found}")
    after = len(shown) - gaps[0] - 1
    return [*lines[: gaps[0]], shown[gaps[0]], *lines[len(lines) - after :]]


def refresh(page, folder):
    lines, session, changed = page.read_text().splitlines(), Session(folder), []
    for step in steps(page):
        if step.why_not_run:
            continue
        found, status = session.run(step)
        if status != step.status:
            raise SystemExit(f"{page.name}:{step.line}: exit status {status}\n{found}")
        if step.printed and not same_text("\n".join(step.printed), found):
            changed.append((step, refreshed(step, found)))
    for step, new in reversed(changed):
        print(f"{page.name}:{step.line}: {step.code}")
        lines[step.first : step.first + len(step.printed)] = [f"    {line}".rstrip() for line in new]
    page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    import tempfile

    for argument in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as name:
            refresh(Path(argument).resolve(), Path(name))
