"""Sculpting from the outside: the span it writes is measured against the layer that made the examples."""

import json

import numpy as np
import pytest
from binary import refuse, run, run_json


def generate(folder, **options):
    shape = {"heads": 2, "dim": 6, "tokens": 2, "scale": 2, "count": 4000, "inputs": "gaussian"} | options
    words = " ".join(f"--{name} {value}" for name, value in shape.items())
    run("generate attention-layer", words, "-o", folder / "ex.npz", "--layer-out", folder / "truth.npz")


def sine(span, theta):
    found, _ = np.linalg.qr(span.reshape(len(span), -1).T)
    truth, _ = np.linalg.qr((theta[1:] - theta[0]).reshape(len(theta) - 1, -1).T)
    return np.linalg.norm(truth - found @ (found.T @ truth), 2)


@pytest.mark.parametrize(
    "forms", ["", "--span-form membership", "--sculpt-form lp", "--sculpt-form lp --span-form membership"]
)
def test_span_and_report(tmp_path, forms):
    generate(tmp_path)
    found = run_json(
        *("recover", tmp_path / "ex.npz", "--method sculpt", forms, "--span-out", tmp_path / "span.npz"),
        *("-o", tmp_path / "l.npz", "--certificate", tmp_path / "c.json"),
    )
    assert found["status"] == "recovered" and found["heads"] == 2
    span, truth = np.load(tmp_path / "span.npz")["span"], np.load(tmp_path / "truth.npz")["Theta"]
    assert span.shape == (1, 6, 6) and abs(np.linalg.norm(span) - 1) < 1e-12
    # A random direction of 36 has a sine of .99; tests/long holds the method to its figures, with more examples.
    assert sine(span, truth) < 0.3
    assert run_json("compare", tmp_path / "l.npz", tmp_path / "truth.npz")["worst_error"] < 1e-8
    report = found["sculpt"]
    assert report == json.loads((tmp_path / "c.json").read_text())["sculpt"]
    assert report["carve"]["accepted_rows"] > report["carve_again"]["accepted_rows"] >= 72
    assert report["rounds"] >= 1 and report["polished_error"] < 1e-8 < report["polish_distance"] < 0.3
    assert report["carve"]["tolerance"] > report["carve_again"]["tolerance"] > 0
    assert report["span_dimension"] == 1 and report["eigengap"] > 2.5 and len(report["widths"]) >= 2
    assert report["net_size"] > 200 and report["net_error"] < 0.3
    assert set(report["seconds"]) == {"sum", "carve", "refine", "carve_again", "span", "net", "polish"}


def test_sharp_attention(tmp_path):
    """Most rows of a sharp layer are one-hot; their half-spaces are in both bodies, beside the slabs."""
    generate(tmp_path, dim=6, scale=12, count=8000)
    for form in "least-squares", "lp":
        found = run(
            *("recover", tmp_path / "ex.npz", "--method sculpt --heads 2 --no-polish --sculpt-form", form),
            *("--span-out", tmp_path / "span.npz", "-o", tmp_path / "l.npz", "--json"),
            status=3,
        )
        report = json.loads(found.stdout)["sculpt"]
        assert report["carve_again"]["half_spaces"] > 1000 and report["carve_again"]["minimum_norm"] > 1
        assert sine(np.load(tmp_path / "span.npz")["span"], np.load(tmp_path / "truth.npz")["Theta"]) < 0.05


def test_more_examples_of_few_inputs(tmp_path):
    """With d = 6 there are 1056 inputs, up to order and sign: 20000 examples repeat them all, and say no less."""
    sines = []
    for count in (1000, 20000):
        generate(tmp_path, count=count, inputs="signs", seed=1)
        words = (
            "--method sculpt --heads 2 --no-polish --span-out",
            tmp_path / "s.npz",
            "-o",
            tmp_path / "l.npz",
        )
        run("recover", tmp_path / "ex.npz", *words, status=3)
        sines.append(sine(np.load(tmp_path / "s.npz")["span"], np.load(tmp_path / "truth.npz")["Theta"]))
    assert sines[1] < sines[0] < 0.2


def test_no_polish_is_never_certified(tmp_path):
    generate(tmp_path, count=2000)
    words = ("recover", tmp_path / "ex.npz", "--method sculpt --heads 2 --no-polish -o", tmp_path / "l.npz")
    done = run(*words, "--keep-uncertified", tmp_path / "u.npz", status=3)
    assert (
        "--no-polish" in done.stdout and "whose accuracy" in done.stdout and not (tmp_path / "l.npz").exists()
    )
    found = json.loads(run(*words, "--json", status=3).stdout)
    report = found["sculpt"]
    assert found["status"] == "not_identified" and found["held_out_error"] == report["net_error"] < 0.2
    assert report["polished_error"] is None and report["polish_distance"] is None
    alone = run_json("compare", tmp_path / "u.npz", tmp_path / "truth.npz")["worst_error"]
    polished = run_json("recover", tmp_path / "ex.npz", "--method sculpt --heads 2 -o", tmp_path / "l.npz")[
        "sculpt"
    ]
    # The polish ends at the true layer, so the way it went is the error that sculpting left.
    assert abs(alone - polished["polish_distance"]) < 1e-3 * alone


def test_no_polish_is_never_certified_though_one_head_is_exact(tmp_path):
    """With one head the net's only point may predict every digit; nothing has tested it all the same."""
    for inputs in "signs", "gaussian":
        rng = np.random.default_rng(3)
        x = rng.standard_normal((400, 3, 3))
        x = np.sign(x) if inputs == "signs" else x
        np.savez(tmp_path / "ex.npz", X=x, Y=np.repeat(x.mean(1, keepdims=True), 3, 1))
        certificate = tmp_path / "c.json"
        words = ("--method sculpt --heads 1 --no-polish --certificate", certificate, "-o", tmp_path / "l.npz")
        run("recover", tmp_path / "ex.npz", *words, status=3)
        assert json.loads(certificate.read_text())["status"] in ("not_identified", "needs_more_examples")


@pytest.mark.parametrize("heads", ["2", "auto"])
def test_noisy_labels_are_certified_as_the_default_does(tmp_path, heads):
    generate(tmp_path, dim=4, count=1500)
    data = dict(np.load(tmp_path / "ex.npz"))
    data["Y"] = data["Y"] + 0.01 * np.random.default_rng(3).standard_normal(data["Y"].shape)
    np.savez(tmp_path / "noisy.npz", **data)
    found = run_json(
        "recover", tmp_path / "noisy.npz", "--method sculpt --heads", heads, "-o", tmp_path / "l.npz"
    )
    assert found["status"] == "approximate" and found["heads"] == 2
    assert abs(found["noise"] / 0.01 - 1) < 0.1  # 21000 equations: the deviation is known to half a per cent
    errors = run_json("compare", tmp_path / "l.npz", tmp_path / "truth.npz")
    assert errors["worst_error"] < 0.05


def test_text_shows_the_phases(tmp_path):
    generate(tmp_path, count=1000)
    text = run("recover", tmp_path / "ex.npz", "--method sculpt --heads 2 -o", tmp_path / "l.npz").stdout
    for phase in ("1 sum", "2 carve", "3 refine", "4 carve", "5 span", "6 net"):
        assert f"\n{phase}" in text
    assert "eigengap" in text and "tuples" in text


def test_same_bytes_for_any_number_of_threads(tmp_path):
    generate(tmp_path, count=1500)
    for threads in (1, 2):
        run(
            *("recover", tmp_path / "ex.npz", "--method sculpt --heads 2 --threads", threads),
            *("-o", tmp_path / f"{threads}.npz", "--span-out", tmp_path / f"s{threads}.npz"),
        )
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()
    assert (tmp_path / "s1.npz").read_bytes() == (tmp_path / "s2.npz").read_bytes()


def test_fading_has_a_status_and_no_layer(tmp_path):
    """Labels of no layer: whatever span is seen in them, nothing is certified."""
    rng = np.random.default_rng(1)
    x = rng.choice([-1.0, 1.0], (400, 3, 5))
    np.savez(tmp_path / "noise.npz", X=x, Y=rng.standard_normal((400, 3, 5)))
    words = ("recover", tmp_path / "noise.npz", "--method sculpt --heads 2 -o", tmp_path / "l.npz")
    done = run(*words, "--json", status=3)
    assert json.loads(done.stdout)["status"] == "not_identified"
    assert not (tmp_path / "l.npz").exists()
    done = run(*words, "--time-limit 0.001 --json", status=3)
    assert json.loads(done.stdout)["status"] == "stalled"


def test_varpro_has_no_sculpt_report(tmp_path):
    generate(tmp_path, count=200)
    found = run_json("recover", tmp_path / "ex.npz", "--heads 2 -o", tmp_path / "l.npz")
    assert found["sculpt"] is None


@pytest.mark.parametrize(
    "options", ["--method paper", "--method sculpt --sculpt-form qp", "--span-form gauge", "--span-out s.npz"]
)
def test_bad_options(tmp_path, options):
    generate(tmp_path, count=20)
    refuse("recover", tmp_path / "ex.npz", options, "-o", tmp_path / "l.npz", folder=tmp_path)


def test_a_sum_of_zero_leaves_nothing_to_carve_with(tmp_path):
    """The W of a hard parity sum to zero: phase 3 finds that, phase 4 accepts no row, and what the polish makes of
    the net (from 30 active examples nothing, on fresh ones) is not called digits."""
    examples, layer = tmp_path / "ex.npz", tmp_path / "truth.npz"
    run(
        "generate hard-parity --dim 6 --size 1 --sharpness 8 --count 60 --seed 1 -o",
        examples,
        "--layer-out",
        layer,
    )
    words = ("recover", examples, "--method sculpt --heads 2 --starts 1 -o", tmp_path / "l.npz")
    report = json.loads(run(*words, "--json", status=3).stdout)["sculpt"]
    assert abs(np.load(layer)["W"].sum(axis=0)).max() == 0
    assert report["sum_change"] == 1 and report["carve_again"]["accepted_rows"] == 0
    text = run(*words, status=3).stdout
    assert report["polished_error"] > report["net_error"] and "the polish does no better" in text
