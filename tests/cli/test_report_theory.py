"""headlens report: figures with `theory = true`, from the study file to the numbers on the page."""

import csv
import re

import pytest
from binary import refuse, run, run_json

STUDY = """
name = "overlay"
command = "fit"
seeds = [1, 2, 3, 4, 5]
record = ["nmse"]
[fixed]
dim = 4
keys = 4
test-samples = 500
[grid]
samples = [128, 256]
noise = [0.0, 0.1]
[variants.model]
exact = {model = "rfa", heads = "inf"}
drawn = {model = "rfa", heads = 50}
[[figure]]
kind = "learning-curves"
title = "Errors"
x = "samples"
y = "nmse"
panel = "noise"
series = "model"
theory = true
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overlay")
    (folder / "study.toml").write_text(STUDY)
    run("study run", folder / "study.toml", "-o", folder / "results.db")
    run("report", folder / "results.db", "-o", folder / "report")
    return folder / "report"


@pytest.fixture(scope="module")
def rows(report):
    with (report / "figures" / "overlay-1-learning-curves.csv").open() as file:
        return list(csv.DictReader(file))


def test_csv_holds_what_theory_says(rows):
    for row in rows:
        heads = 50 if row["series"] == "drawn" else "inf"
        theory = run_json(
            f"theory power-mean --degree 1 --dim 4 --keys 4 --heads {heads} --samples", row["samples"]
        )
        (bound,), (square,), (predicted,) = (theory[k] for k in ("bound", "square_bound", "predicted_error"))
        assert float(row["bound"]) == pytest.approx(bound, rel=1e-12)
        if row["panel"] == "noise = 0":
            assert float(row["bound_as_nmse"]) == pytest.approx(square * 16, rel=1e-12)  # variance 1 / (d N)
        assert float(row["ratio"]) == pytest.approx(float(row["mean"]) / float(row["predicted"]), rel=1e-12)
        if row["panel"] == "noise = 0":
            assert float(row["predicted"]) == pytest.approx(predicted, rel=1e-12)


def test_noise_of_the_training_sets_is_no_error(rows):
    # Errors are against the target itself. With the noise counted in, predictions would be seven times larger.
    noisy = [
        float(row["ratio"]) for row in rows if row["panel"] == "noise = 0.1" and row["series"] == "exact"
    ]
    assert len(noisy) == 2
    assert all(0.6 < ratio < 1.6 for ratio in noisy)


def test_page_says_how_well_they_agree(report, rows):
    page = (report / "index.html").read_text()
    ratios = [float(row["ratio"]) for row in rows if row["ratio"]]
    low, high, points = re.search(
        r"divided by the predicted one is (\S+) to (\S+) at (\d+) points", page
    ).groups()
    assert float(low) == pytest.approx(min(ratios), rel=5e-3)
    assert float(high) == pytest.approx(max(ratios), rel=5e-3)
    assert int(points) == len(ratios) == 8
    assert "Theory is silent" not in page
    assert page.count(f"<td>{low}<small>") == 1  # in the table too


def test_theory_without_a_word_to_say_is_refused(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace('"rfa", heads = "inf"', '"brfa", heads = 40').replace('"rfa"', '"mlp"'))
    line = refuse("study run", study, "-o", tmp_path / "r.db", folder=tmp_path)
    assert "study.toml:23: figure.theory: theory says nothing about any cell" in line
