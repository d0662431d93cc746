"""Every command of README.md and docs/*.md runs and prints what the page shows; see pages.py."""

import re

import pytest
from pages import NOT_RUN, PAGES, PROGRESS, Session, blocks, check, same_text, steps

ALL_STEPS = {page: steps(page) for page in PAGES}


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(not s.slow for s in ALL_STEPS[p])], ids=lambda p: p.name
)
def test_commands_print_what_the_page_shows(page, tmp_path):
    check(page, tmp_path, slow=False)


def test_every_reason_not_to_run_a_command_is_needed():
    commands = [step.code for page in PAGES for step in ALL_STEPS[page] if step.language == "shell"]
    assert [start for start in NOT_RUN if not any(c.startswith(start) for c in commands)] == []


def anchors(page):
    """The names that a heading can be linked by: its letters, digits, hyphens and spaces, the latter as hyphens."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        file, _, anchor = target.partition("#")
        if not file.startswith("https:"):
            there = (page.parent / file).resolve() if file else page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), target


def test_commands_are_marked_as_such():
    """A line that begins with `headlens` and names a file is a command and has its `$`; a synopsis names a FILE."""
    for page in PAGES:
        for language, first, lines, _ in blocks(page.read_text().splitlines()):
            for number, line in enumerate(lines, first + 1):
                if language in ("", "sh", "console") and re.match(r"\s*headlens ", line):
                    file = re.search(r"\b[a-z][\w-]*\.(npz|npy|hlm|toml|db|json|safetensors)\b", line)
                    assert not file, f"{page.name}:{number}: {line}"


@pytest.mark.parametrize(
    ("shown", "found", "same"),
    [
        ("status solved, 4.96 s", "status solved,   12.1 s", True),
        ("status solved", "status stalled", False),
        ("2048 sets", "2049 sets", False),
        ("nmse 0.0488926 on", "nmse 0.0488927 on", True),
        ("nmse 0.0488926 on", "nmse 0.0488928 on", False),
        ("mse 2.00649e-05,", "mse 2.00651e-05,", False),
        ("residual 1.2e-13,", "residual 9.0e-13,", True),
        ("residual 1.2e-13,", "residual 1.3e-12,", False),
        ("zero 0", "zero 1e-17", False),
        ("0.0595651...", "0.059565125212031826", True),
        ("0.0595651...", "0.059568", False),
        ("a\n...\nz 1", "a b c\nz 1", True),
        ("a ... m ... z", "a b m c z", True),
        ("a ... m ... z", "a b n c z", False),
        ("a b", "a b c", False),
        ("a ...", "b", False),
    ],
)
def test_how_texts_are_compared(shown, found, same):
    assert same_text(shown, found) is same


def test_a_page_whose_output_is_wrong_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n    $ echo one two\n    one three\n\n```python\nprint(1)\n```\n\n    2\n")
    first, second = steps(page)
    assert (first.code, first.printed, first.line) == ("echo one two", ["one three"], 3)
    assert (second.code, second.printed) == ("print(1)", ["2"])
    session = Session(tmp_path)
    assert [same_text("\n".join(s.printed), session.run(s)[0]) for s in (first, second)] == [False, False]


def test_progress_of_a_busy_machine_is_not_compared():
    said = "headlens: ridge path 0%, 1 min 7 s\nheadlens: search, 2 heads, step 2: error 5.0e-01, goal 1.0e-08, 1 min 0 s\n"
    assert PROGRESS.sub("", said + "status solved, 4 min 2 s\n") == "status solved, 4 min 2 s\n"
    assert PROGRESS.sub("", "headlens: note: rounded\n") == "headlens: note: rounded\n"
