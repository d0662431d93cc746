"""The pages of recover, match and refit as a browser shows them, on a telephone and on a desk, in light and in dark."""

import csv
import re

import numpy as np
import pytest
from binary import refuse, run
from test_report_page import BROWSER, probe


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    examples, layer, found = (folder / f"{name}.npz" for name in ("examples", "layer", "found"))
    run(
        "generate attention-layer --heads 3 --dim 6 --tokens 4 --count 150 -o", examples, "--layer-out", layer
    )
    run("recover", examples, "--heads 3 -o", found, "--report", folder / "recover")
    run("match", layer, found, "--report", folder / "match")
    run(
        "refit",
        layer,
        "--rank 3 --heads 2 --steps 20 --count 60 --length 5 -o",
        folder / "small.npz",
        "--report",
        folder / "refit",
    )
    return folder


FIGURES = {
    "recover": {"spectra", "attention", "trace"},
    "match": {"overlaps", "spectra-a", "spectra-b"},
    "refit": {"pareto", "spectra", "attention", "trace"},
}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("width, scheme", [(400, "light"), (1280, "dark")])
def test_pages_can_be_read(pages, name, width, scheme):
    seen = probe(pages / name / "index.html", pages / name, width, scheme)
    assert {figure["id"] for figure in seen["figures"]} == FIGURES[name]
    assert seen["page"] <= seen["width"] and not seen["cut"] and not seen["dim"] and not seen["fetched"]
    assert (sum(seen["background"]) > 600) == (scheme == "light")
    for figure in seen["figures"]:
        assert figure["shown"] == 1 and figure["marks"] > 5 and figure["texts"] > 3 and figure["caption"] > 40
        assert figure["inside"] and figure["readable"] and not figure["dim"], figure["id"]


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_figures_show_the_layer(pages):
    truth = np.load(pages / "layer.npz")
    spectra = rows(pages / "match" / "figures" / "spectra-a.csv")
    for panel in ("Theta", "W"):
        for i, matrix in enumerate(truth[panel]):
            shown = [
                float(row["singular value"])
                for row in spectra
                if (row["panel"], row["series"]) == (panel, f"head {i}")
            ]
            np.testing.assert_allclose(shown, np.linalg.svd(matrix)[1][: len(shown)], rtol=1e-12)
            assert len(shown) == 6
    found, x = np.load(pages / "found.npz"), np.load(pages / "examples.npz")["X"][0]
    shown = rows(pages / "recover" / "figures" / "attention.csv")
    for i, theta in enumerate(found["Theta"]):
        p = np.exp(x @ theta @ x.T)
        values = [float(row["value"]) for row in shown if row["panel"] == f"head {i}"]
        np.testing.assert_allclose(values, (p / p.sum(1, keepdims=True)).ravel(), rtol=1e-9)


def test_words_say_what_was_found_and_what_to_do(pages):
    text = {name: re.sub("<[^>]*>", "", (pages / name / "index.html").read_text()) for name in FIGURES}
    assert "recovered" in text["recover"] and "3 heads below are those of the layer" in text["recover"]
    assert "What to do next" in text["match"] and "up to their order" in text["match"]
    assert "What to do next" in text["refit"] and "held-out examples" in text["refit"]


def test_a_folder_of_others_is_refused_before_the_work(pages, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    words = ("recover", pages / "examples.npz", "-o", tmp_path / "layer.npz", "--report", tmp_path)
    assert "mine.txt" in refuse(*words, folder=tmp_path)
