"""docs/command-line.md against the program, both ways: commands, options, and the keys of the JSON objects."""

import functools
import json
import re
import subprocess
from fnmatch import fnmatch
from itertools import product

import numpy as np
import pytest
from binary import ROOT, command, run

PAGE = (ROOT / "docs/command-line.md").read_text()
OPTION = re.compile(r"--[a-z][a-z-]*")
OF_CLI11 = {"--help", "--version"}


def sections(text):
    """{heading: text below it, up to the next heading}."""
    parts = re.split(r"^#{2,3} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def commands_of(heading):
    """ "generate power-mean, native" -> both with their `generate`; "fit" and "completion, man" as they are."""
    group, _, names = heading.partition(" ")
    if names and not group.endswith(","):
        return [f"{group} {name}" for name in names.split(", ")]
    return heading.split(", ")


def first_column(text, header):
    """First cells of the tables whose heading begins with `header`."""
    tables = re.findall(rf"^\| {header} \|.*\n\|[-|]+\n((?:\|.*\n?)+)", text, re.MULTILINE)
    return [row.replace("\\|", "/").split("|")[1] for table in tables for row in table.splitlines()]


def documented_options(heading):
    return {name for cell in first_column(SECTIONS[heading], "option") for name in OPTION.findall(cell)}


def programs_commands(*words):
    """Every command that does something: those of --help which have none below them."""
    text = run(*words, "--help").stdout.partition("Subcommands:")[2].partition("\n\n")[0]
    names = re.findall(r"^  (\S+) ", text, re.MULTILINE)
    return [c for name in names for c in programs_commands(*words, name)] if names else [" ".join(words)]


@functools.cache
def programs_options(name):
    return set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", run(name, "--help").stdout, re.MULTILINE)) - OF_CLI11


SECTIONS = sections(PAGE)
COMMANDS = {
    heading: commands_of(heading)
    for heading in SECTIONS
    if heading not in ("Everywhere", "generate", "plan", "theory", "study")
}
EVERYWHERE = documented_options("Everywhere")


def test_every_command_has_its_section():
    assert sorted(c for commands in COMMANDS.values() for c in commands) == sorted(programs_commands())


@pytest.mark.parametrize("heading", COMMANDS)
def test_options(heading):
    documented, found = documented_options(heading), {c: programs_options(c) for c in COMMANDS[heading]}
    for name, options in found.items():
        assert options - documented - EVERYWHERE == set(), f"{name}: not in docs/command-line.md"
    assert documented - set().union(*found.values()) == set(), f"{heading}: in docs/command-line.md only"


def test_options_of_nearly_all_commands():
    rows = re.findall(r"^\| `(--[a-z-]+).*\|([^|]*)\|$", SECTIONS["Everywhere"], re.MULTILINE)
    assert {option for option, _ in rows} == EVERYWHERE
    for option, without in rows:
        lacking = {c for commands in COMMANDS.values() for c in commands if option not in programs_options(c)}
        assert set(re.findall(r"`([^`]+)`", without)) == lacking, option


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name
)
def test_options_in_running_text_exist(page):
    """`--option` in any page is one of the program's."""
    known = OF_CLI11.union(*(programs_options(c) for commands in COMMANDS.values() for c in commands))
    named = {name for span in re.findall(r"`(--[^`]*)`", page.read_text()) for name in OPTION.findall(span)}
    assert named - known == set()


# An example of every command with --json. What one example leaves null or empty, another fills.
SETS = "--dim 4 --keys 3 --count 60"
EXAMPLES = [
    f"generate power-mean --degree 2 {SETS} -o sets.npz",
    "generate attention-layer --heads 2 --dim 4 --tokens 4 --count 120 -o ex.npz --layer-out layer.npz",
    "generate examples --layer layer.npz -o more.npz",
    "generate hard-parity --dim 8 --size 2 --count 400 --layer-out hard-layer.npz -o hard.npz",
    "generate hard-rounding -o rounding.npz",
    "fit sets.npz --heads 20 -o model.hlm",
    "kernel sets.npz -o k.npy",
    "plan fit --count 1e5 --ranks 4 --dim 4 --keys 3 --heads 20",
    "theory power-mean --samples 64 --heads 20 --error 0.9",
    "predict model.hlm sets.npz -o p.npy",
    "evaluate model.hlm sets.npz",
    "fit labels.npz --heads 20 --loss logistic --ridge 0.1 -o classifier.hlm",
    "evaluate classifier.hlm labels.npz",
    "fit labels.npz --auto -o auto.hlm",
    "recover ex.npz -o found.npz",
    "recover ex.npz --start spectral -o found.npz",
    "recover ex.npz --method sculpt --time-limit 10 -o found.npz",
    "recover ex.npz --method gradient --heads 2 --starts 1 --steps 20 -o found.npz",
    "recover ex.npz --best-fit --heads 1 -o found.npz",
    "recover ex.npz --variant auto --heads 1 --starts 1 -o found.npz",
    "recover hard.npz --method brute-force -o found.npz",
    "recover hard.npz --method linear-algebra -o found.npz",
    "compare layer.npz layer.npz",
    "match layer.npz pruned.npz",
    "match pruned.npz layer.npz",
    "check layer.npz ex.npz",
    "check damaged.npz ex.npz",
    "refit layer.npz --heads 1 --steps 60 --count 40 --length 3 -o small.npz",
    "export layer.npz --like like.npz -o out.npz",
    "inspect layer.npz",
    "inspect hard-layer.npz --fourier 2",
    "inspect layer.npz --tails --samples 100",
    "study run study.toml -o results.db",
    "study merge results.db -o all.db",
    "study status results.db",
    "report results.db -o report",
    "info",
]
STUDY = """
name = "tiny"
command = "fit"
seeds = [1, 2]
[fixed]
task = "power-mean"
dim = 3
keys = 2
test-samples = 20
[grid]
samples = [10, 20]
[variants.model]
A = {model = "rfa", heads = 5}
B = {model = "brfa", heads = 5}
[[figure]]
kind = "learning-curves"
title = "curves"
x = "samples"
y = "nmse"
series = "model"
[[finding]]
text = "A beats B."
quantity = "nmse"
x = "samples"
better = {model = "A"}
worse = {model = "B"}
"""


def keys_of(value, path=""):
    """a, a.b, ...: keys of objects, and of objects in lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}{key}"
            yield from keys_of(inner, f"{path}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, path)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """{command: every key that its examples print}."""
    folder = tmp_path_factory.mktemp("json")
    rng = np.random.default_rng(0)
    query, keys = rng.normal(size=(60, 4)), rng.normal(size=(60, 3, 4))
    np.savez(folder / "labels.npz", query=query, keys=keys, y=np.arange(60) % 2)
    (folder / "study.toml").write_text(STUDY)
    found = {}
    for example in EXAMPLES:
        if example.startswith("match layer.npz"):
            layer = dict(np.load(folder / "layer.npz"))
            np.savez(folder / "pruned.npz", **{name: array[:1] for name, array in layer.items()})
            np.savez(
                folder / "like.npz", **{f"W_{name}": np.zeros((8, 4)) for name in "QKV"}, W_O=np.zeros((4, 8))
            )
            np.savez(folder / "damaged.npz", Theta=layer["Theta"] * [[[1]], [[-1]]], W=layer["W"])
        words = example.split()
        name = next(c for n in (2, 1) if (c := " ".join(words[:n])) in sum(COMMANDS.values(), []))
        done = subprocess.run(
            command(example, "--json"), cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 3), f"{example}: {done.stderr}"
        found.setdefault(name, set()).update(keys_of(json.loads(done.stdout)))
    return found


def documented_keys(heading):
    text = SECTIONS[heading]
    if "[the report](fitting.md#the-report)" in text:
        text = sections((ROOT / "docs/fitting.md").read_text())["The report"]
    names = [name for cell in first_column(text, "JSON key") for name in re.findall(r"`([^`]+)`", cell)]
    return {inner for name in names for inner in expanded(name)}


def expanded(name):
    """ "a.{b,c}" -> a, a.b, a.c; the objects on the way are keys too."""
    choices = [part.strip("{}").split(",") for part in re.findall(r"\{[^}]*\}|[^.{}]+", name)]
    for path in product(*choices):
        yield from (".".join(path[:n]) for n in range(1, len(path) + 1))


WITH_JSON = {h: c for h, c in COMMANDS.items() if any("--json" in programs_options(name) for name in c)}


@pytest.mark.parametrize("heading", WITH_JSON)
def test_json_keys(heading, printed):
    examples = [printed[c] for c in WITH_JSON[heading] if c in printed]
    assert examples, f"no example of {heading}"
    documented, found = documented_keys(heading), set().union(*examples)
    undocumented = {key for key in found if not any(fnmatch(key, name) for name in documented)}
    assert undocumented == set(), f"{heading}: not in docs/command-line.md"
    unseen = {name for name in documented if not any(fnmatch(key, name) for key in found)}
    assert unseen == set(), f"{heading}: in docs/command-line.md, but not printed"
