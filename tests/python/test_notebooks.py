"""The notebooks of examples/, executed as Jupyter would: a kernel each, in their folder, without an error.

They are kept without outputs: what they print and draw comes from the build that runs them, and changes to them
can be read. So these tests look at the outputs that they make.
"""

import pathlib
import re

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
FIGURES = {"learning_curves": 3, "musk1": 1, "recover_heads": 2}


def outputs(notebook, kind):
    """The texts of one MIME type, or of a stream ("stdout", "stderr"), in order."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = output.get("text") if output.get("name") == kind else output.get("data", {}).get(kind)
            found += [] if text is None else [text]
    return found


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """name -> the notebook with its outputs; each runs once."""
    done = {}
    folder = tmp_path_factory.mktemp("jupyter")

    def run(name):
        if name not in done:
            notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
            NotebookClient(notebook, resources={"metadata": {"path": str(EXAMPLES)}}, timeout=120).execute()
            done[name] = notebook
        return done[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MPLBACKEND", raising=False)  # figures are drawn into the notebook
        for variable in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(variable, str(folder))
        yield run


def test_every_notebook_is_here():
    assert {file.stem for file in NOTEBOOKS} == set(FIGURES)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_kept_without_outputs(file):
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and all(not cell.outputs and cell.execution_count is None for cell in code)


def runs_and_draws(name, executed):
    notebook = executed(name)
    assert len(outputs(notebook, "image/png")) == FIGURES[name]
    assert "Warning" not in "".join(outputs(notebook, "stderr"))


def test_attention_learns_what_the_plain_network_does_not_yet(executed):
    runs_and_draws("learning_curves", executed)
    printed = "".join(outputs(executed("learning_curves"), "stdout"))
    attention, plain = (float(x) for x in re.findall(r": (\S+) with 1024 sets", printed))
    assert attention < 0.1 and plain > 0.3
    # Three splits of one draw of sets: a ratio moves by a tenth or two.
    ratios = [float(x) for x in " ".join(re.findall(r"predicted: \[(.*)\]", printed)).split()]
    assert len(ratios) == 10 and 0.7 < min(ratios) and max(ratios) < 1.4


# The other two are long: tests/long.
def four_heads_are_recovered(executed):
    runs_and_draws("recover_heads", executed)
    notebook = executed("recover_heads")
    printed = "".join(outputs(notebook, "stdout"))
    assert float(re.search(r"worst relative error of any head: (\S+)", printed)[1]) < 1e-8
    assert "approximate with 4 heads" in printed and "needs_more_examples" in printed
    assert "<table" in outputs(notebook, "text/html")[0]


def musks_are_told_apart(executed):
    """Well above always saying musk: 63 of 92 is 3.3 standard deviations of guessing above a half."""
    runs_and_draws("musk1", executed)
    printed = "".join(outputs(executed("musk1"), "stdout"))
    assert int(re.search(r"(\d+) of 92 molecules right", printed)[1]) >= 63
