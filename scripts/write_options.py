"""Writes what is made from the tables of options: those of docs/command-line.md and docs/studies.md, and the docstrings
of the package.

    PYTHONPATH=build/python .venv/bin/python scripts/write_options.py [--check]

With --check nothing is written, and the exit status says whether anything would change. Sentences belong into the
tables of src/options; the program's own options (files, --json) are described where a command adds them.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/command-line.md"
STUDIES = ROOT / "docs/studies.md"
EVERYWHERE = {"--help", "--version", "--threads", "--max-memory", "--json"}
UNUSED_SEED = "accepted everywhere"  # how the help of a seed begins that draws nothing

# ---- docs/command-line.md


def commands_of(heading):
    """ "generate power-mean, native" -> both with their `generate`; "fit" and "completion, man" as they are."""
    group, _, names = heading.partition(" ")
    if names and not group.endswith(","):
        return [f"{group} {name}" for name in names.split(", ")]
    return heading.split(", ")


def in_cell(text):
    """Bars would end the cell."""
    return text.replace("|", "\\|")


def in_markdown(text):
    """--heads inf becomes `--heads inf`."""
    text = re.sub(r"(?<![`\w-])(--[a-z][a-z-]*(?: (?:inf|sculpt|'[^']*'))?)", r"`\1`", text)
    return in_cell(text)


def row_of(option, only):
    names = ", ".join(option["names"])
    value = option["value"].replace("|", "\\|")
    help, _, unset = option["help"].partition(" (default: ")
    help += option["more"]
    if only:
        help += " (" + ", ".join(f"`{name}`" for name in only) + ")"
    default = "required" if option["required"] else option["default"] or unset[:-1]
    return (
        f"| `{names}{' ' if value else ''}{value}` | {in_markdown(help)} |{' ' if default else ''}{default} |"
    )


def rows_of(commands, described):
    """One row per option; of several commands, with those that have it where not all do."""
    found = {}
    for command in commands:
        for option in described[command]:
            long = option["names"][-1]
            if long in EVERYWHERE or option["help"].startswith(UNUSED_SEED):
                continue
            found.setdefault(long, (option, []))[1].append(command.split()[-1])
    rows = [row_of(o, only if len(only) < len(commands) else []) for o, only in found.values()]
    return sorted(rows, key=lambda row: not row.startswith("| `-o"))


def page(described):
    parts = re.split(r"^(#{2,3} .+)$", PAGE.read_text(), flags=re.MULTILINE)
    for i in range(1, len(parts), 2):
        commands = commands_of(parts[i].lstrip("# "))
        if all(command in described for command in commands):
            rows = "\n".join(rows_of(commands, described))
            table = r"(^\| option \| meaning \| default \|\n\|---\|---\|---\|\n)(?:\|.*\n)+"
            parts[i + 1] = re.sub(
                table, lambda m, rows=rows: m.group(1) + rows + "\n", parts[i + 1], flags=re.MULTILINE
            )
    return "".join(parts)


# ---- docs/studies.md


def studies(described):
    """The table below "**Options of `fit`**", and that of `recover`."""
    text = STUDIES.read_text()
    for command in ("fit", "recover"):
        rows = "".join(
            f"| `{option['name']}` | {in_cell(option['help'])} | `{option['default']}` |\n"
            for option in described[f"[fixed] {command}"]
        )
        start = text.index(f"**Options of `{command}`**")
        table = re.compile(r"^\| option \|.*\n\|[-|]+\n(?:\|.*\n)+", flags=re.MULTILINE).search(text, start)
        head = "| option | meaning | default |\n|---|---|---|\n"
        text = text[: table.start()] + head + rows + text[table.end() :]
    return text


# ---- docstrings

# Files, and the structs whose options their functions take; options that mean something narrower there, or in one class.
TAKES = {
    "_estimators.py": (
        {"FeatureOptions", "FitOptions"},
        {"mean", "precision", "loss", "heads", "RandomFeatureAttentionRegressor.model"}
        | {f"AttentionKernelRidge.{name}" for name in ("ridge", "solver", "centres")},
    ),
    "_classifier.py": (
        {"FeatureOptions", "FitOptions"},
        {"mean", "precision", "loss", "heads"}
        | {f"RandomFeatureAttentionClassifier.{name}" for name in ("ridge", "model")},
    ),
    "_kernel.py": ({"FeatureOptions", "KernelOptions"}, {"mean", "precision", "heads", "seed"}),
    "_recover.py": ({"RecoverOptions", "SculptOptions"}, {"seed"}),
    "_generate.py": ({"TaskOptions"}, {"task", "keys"}),
}
WIDTH = 118


def in_quotes(row):
    """The help of an option, with its words as Python writes them."""
    words = row["choices"] + ([row["nothing"]] if row["nothing"] else [])
    text = row["help"]
    for word in words:
        text = re.sub(rf"(?<![\w\"'=-]){re.escape(word)}(?![\w\"'-])", f'"{word}"', text)
    if row["choices"] and not all(f'"{word}"' in text for word in row["choices"]):
        text = ", ".join(f'"{word}"' for word in row["choices"]) + ": " + row["help"]
    if row["kind"] == "pair":
        text = f"({row['shown'].replace(',', ', ')}): {text}"
    if row["unset"] not in ("", "none"):
        text += f" ({'None' if row['nothing'] else '0'}: {row['unset']})"
    return text


def entry(name, row):
    lines = [f"    {name} :"]
    for word in in_quotes(row).split():
        if len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append(" " * 7)
        lines[-1] += " " + word
    return "\n".join(lines) + "\n"


def docstrings(path, tables):
    structs, narrower = TAKES[path.name]
    rows = {name: row for struct in structs for name, row in tables[struct].items()}
    parts = re.split(r"(^    Parameters\n    -+\n)", path.read_text(), flags=re.MULTILINE)
    for i in range(2, len(parts), 2):
        end = parts[i].index("\n\n")
        entries = re.findall(r"^    \S.*\n(?:     +.*\n)*", parts[i][: end + 1], flags=re.MULTILINE)
        owner = re.findall(r"^(?:class|def) (\w+)", "".join(parts[:i]), flags=re.MULTILINE)[-1]
        for k, text in enumerate(entries):
            name = text.split(" :")[0].strip()
            if name in rows and not {name, f"{owner}.{name}"} & narrower:
                entries[k] = entry(name, rows[name])
        parts[i] = "".join(entries) + parts[i][end + 1 :]
    return "".join(parts)


def main():
    sys.path.insert(0, str(ROOT / "build/python"))
    from headlens import _core

    described = json.loads(subprocess.check_output([ROOT / "build/headlens", "options"], text=True))
    new = {PAGE: page(described), STUDIES: studies(described)}
    for name in TAKES:
        path = ROOT / "python/headlens" / name
        new[path] = docstrings(path, _core.OPTIONS)
    changed = [path for path, text in new.items() if text != path.read_text()]
    for path in changed:
        print(f"{path.relative_to(ROOT)} differs from the tables of options")
        if "--check" not in sys.argv:
            path.write_text(new[path])
    return bool(changed) and "--check" in sys.argv


if __name__ == "__main__":
    sys.exit(main())
