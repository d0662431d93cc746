"""The package and the program are one library: the same bytes, and predictions that NumPy confirms."""

import json
import pickle
import shutil
import subprocess

import headlens
import numpy as np
import pytest
from binary import command, predict, read_model, run, run_json
from reference import relative_error, scores_of


def save(path, X, y):
    """The file of the program for what Python calls X."""
    if isinstance(X, headlens.Sets):
        offsets = {} if X.offsets is None else {"offsets": X.offsets}
        np.savez(path, query=X.query, keys=X.keys, y=y, **offsets)
    else:
        np.savez(path, query=X[:, 0], keys=X[:, 1:], y=y)
    return dict(np.load(path))


FITS = {
    "rfa": ({}, ""),
    "brfa, softmax, positions": (
        {"model": "brfa", "score_function": "softmax", "positions": "sinusoidal"},
        "--model brfa --score softmax --positions sinusoidal",
    ),
    "exp": ({"score_function": "exp", "weight_scale": 0.2}, "--score exp --weight-scale 0.2"),
    "single": ({"precision": "f32", "ridge": 1e-2}, "--precision f32 --ridge 1e-2"),
    "huber": (
        {"loss": "huber", "huber_delta": 0.3, "ridge": 1e-2},
        "--loss huber --huber-delta 0.3 --ridge 1e-2",
    ),
    "primal": ({"solver": "primal", "intercept": False}, "--solver primal --no-intercept"),
    "ball": ({"norm_ball": (5.0, 2.0)}, "--norm-ball 5,2"),
}


@pytest.mark.parametrize("layout", ["tokens", "ragged"])
@pytest.mark.parametrize("case", FITS)
def test_model_files_and_predictions(case, layout, request, tmp_path):
    X, y = request.getfixturevalue(layout)
    parameters, options = FITS[case]
    data = save(tmp_path / "data.npz", X, y)
    run("fit", tmp_path / "data.npz", "-o", tmp_path / "cli", "--heads 30 --seed 7", options)
    model = headlens.RandomFeatureAttentionRegressor(heads=30, random_state=7, **parameters).fit(X, y)
    model.save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "cli").read_bytes()
    from_program = predict(tmp_path / "cli", tmp_path / "data.npz")
    np.testing.assert_array_equal(model.predict(X), from_program)
    np.testing.assert_array_equal(headlens.load(tmp_path / "cli").predict(X), from_program)
    if case != "single":
        expected = scores_of(*read_model(tmp_path / "cli"), data)[:, 0]
        assert relative_error(model.predict(X), expected) < 1e-12


def test_a_mean_and_a_rank(tokens, tmp_path):
    """The model keeps a copy of the mean, and a file of either brings the parameters back."""
    X, y = tokens
    save(tmp_path / "data.npz", X, y)
    d = X.shape[2]
    mean = np.random.default_rng(1).normal(size=(d, d))
    np.save(tmp_path / "mean.npy", mean)
    options = ("--model brfa --seed 7 --mean", tmp_path / "mean.npy", "-o", tmp_path / "cli")
    run("fit", tmp_path / "data.npz", "--heads 30 --head-rank 2", *options)
    given = mean.copy()
    model = headlens.RandomFeatureAttentionRegressor(
        model="brfa", heads=30, random_state=7, mean=given, head_rank=2
    )
    model.fit(X, y).save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "cli").read_bytes()
    for again in headlens.load(tmp_path / "cli"), pickle.loads(pickle.dumps(model)):
        assert again.head_rank == 2 and np.array_equal(again.mean, mean)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        again.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "cli").read_bytes()
    run("fit", tmp_path / "data.npz", "--heads inf", *options)
    kernel = headlens.AttentionKernelRidge(model="brfa", random_state=7, mean=given).fit(X, y)
    given[:] = 0
    kernel.save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "cli").read_bytes()
    np.testing.assert_array_equal(kernel.predict(X), predict(tmp_path / "cli", tmp_path / "data.npz"))
    for parameters, words in (
        ({"mean": mean}, ""),
        ({"mean": mean, "head_rank": 3, "samples": 64}, "--head-rank 3 --samples 64"),
    ):
        found = headlens.attention_kernel(X, model="brfa", **parameters)
        run(
            "kernel",
            tmp_path / "data.npz",
            "--model brfa",
            words,
            "--mean",
            tmp_path / "mean.npy",
            "-o",
            tmp_path / "k.npy",
        )
        np.testing.assert_array_equal(found, np.load(tmp_path / "k.npy"))
    for wrong, words in (
        ({"mean": mean[:2]}, "square matrix"),
        ({"mean": np.eye(d + 3)}, "expected"),
        ({"head_rank": 0}, "head_rank: 0"),
        ({"heads": "inf", "head_rank": 2}, "no closed form"),
    ):
        with pytest.raises(ValueError, match=words):
            headlens.RandomFeatureAttentionRegressor(**{"model": "brfa", "heads": 5, **wrong}).fit(X, y)


def test_mlp(tokens, tmp_path):
    X, y = tokens
    data = save(tmp_path / "data.npz", X, y)
    run("fit", tmp_path / "data.npz", "-o", tmp_path / "cli", "--model mlp --heads 30 --seed 7")
    model = headlens.RandomFeatureAttentionRegressor(model="mlp", heads=30, random_state=7).fit(X, y)
    model.save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "cli").read_bytes()
    assert relative_error(model.predict(X), scores_of(*read_model(tmp_path / "cli"), data)[:, 0]) < 1e-12


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers(loss, classes, ragged, tmp_path):
    X, y = ragged
    labels = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) * 2 - 1
    data = save(tmp_path / "data.npz", X, labels)
    run("fit", tmp_path / "data.npz", "-o", tmp_path / "cli", f"--heads 30 --loss {loss} --ridge 0.01")
    model = headlens.RandomFeatureAttentionClassifier(heads=30, random_state=0, loss=loss, ridge=0.01).fit(
        X, labels
    )
    model.save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "cli").read_bytes()
    np.testing.assert_array_equal(model.predict(X), predict(tmp_path / "cli", tmp_path / "data.npz"))
    scores = scores_of(*read_model(tmp_path / "cli"), data)
    assert relative_error(model.decision_function(X), scores[:, 0] if classes == 2 else scores) < 1e-12


@pytest.mark.parametrize("layout", ["tokens", "ragged"])
@pytest.mark.parametrize("centres", [None, 15])
def test_kernel_regression(layout, centres, request, tmp_path):
    X, y = request.getfixturevalue(layout)
    data = tmp_path / "data.npz"
    save(data, X, y)
    extra = "" if centres is None else f"--centres {centres}"
    run("fit", data, "-o", tmp_path / "cli", "--heads inf --model brfa --seed 3", extra)
    model = headlens.AttentionKernelRidge(model="brfa", centres=centres, random_state=3).fit(X, y)
    model.save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "cli").read_bytes()
    np.testing.assert_array_equal(model.predict(X), predict(tmp_path / "cli", data))
    # b + sum_i K(x, z_i) a_i, with the kernel between X and the sets that the model keeps.
    K = headlens.attention_kernel(X, model.support_, model="brfa")
    np.testing.assert_allclose(
        K @ model.dual_coef_[:, 0] + model.intercept_,
        model.predict(X),
        rtol=0,
        atol=1e-12 * np.abs(y).max() * 40,
    )
    np.testing.assert_array_equal(model.transform(X), K)


def test_kernels(ragged, tmp_path):
    X, y = ragged
    save(tmp_path / "a.npz", X, y)
    save(tmp_path / "b.npz", X[:5], y[:5])
    run("kernel", tmp_path / "b.npz", tmp_path / "a.npz", "--model brfa --exact -o", tmp_path / "k.npy")
    np.testing.assert_array_equal(
        headlens.attention_kernel(X[:5], X, model="brfa", exact=True), np.load(tmp_path / "k.npy")
    )
    found = run_json(
        "kernel", tmp_path / "a.npz", "--score softmax --samples 100 --seed 2 -o", tmp_path / "s.npy"
    )
    K, error = headlens.attention_kernel(X, score="softmax", samples=100, seed=2, return_standard_error=True)
    np.testing.assert_array_equal(K, np.load(tmp_path / "s.npy"))
    assert error == found["standard_error"]


def without_times(certificate):
    """The certificate but for what a clock says."""
    kept = {k: v for k, v in certificate.items() if k not in ("seconds", "phases", "trace")}
    return kept | {
        "trace": [{k: v for k, v in point.items() if k != "seconds"} for point in certificate["trace"]],
        "sculpt": None
        if kept["sculpt"] is None
        else {k: v for k, v in kept["sculpt"].items() if k != "seconds"},
    }


SHAPES = [(4, 8, 2, 64, (0.5, 2, 8)), (4, 8, 3, 96, (0.5, 2, 8)), (6, 16, 4, 160, (0.5, 2, 4))]
LAYERS = [  # teacher, examples, options in Python and of the program; the first nine are those of docs/recovery.md
    *(
        (f"--heads {m} --dim {d} --scale {s}", f"--tokens {k} --count {n}", {}, "")
        for k, d, m, n, t in SHAPES
        for s in t
    ),
    (
        "--heads 2 --outputs 3 --rank 2",
        "--tokens 4 --count 200",
        {"starts": 3, "heads": 2},
        "--starts 3 --heads 2",
    ),
    ("--heads 3", "--tokens 4 --count 20", {"max_heads": 2, "starts": 2}, "--max-heads 2 --starts 2"),
    ("--heads 2 --scale 1", "--tokens 4 --count 400 --noise 0.01", {"start": "spectral"}, "--start spectral"),
    (
        "--heads 2 --dim 6 --scale 1",
        "--tokens 4 --count 1500",
        {"method": "sculpt", "heads": 2, "seed": 1},
        "--method sculpt --heads 2 --seed 1",
    ),
]


@pytest.mark.filterwarnings("ignore::headlens.NumericalWarning")
@pytest.mark.parametrize("teacher,drawn,parameters,options", LAYERS)
def test_recovered_layers_are_the_same_bytes(teacher, drawn, parameters, options, tmp_path):
    examples = tmp_path / "ex.npz"
    run("generate attention-layer", teacher, drawn, "--seed 11 -o", examples)
    with np.load(examples) as data:
        recovery = headlens.recover(data["X"], data["Y"], **parameters)
    check_recovery(tmp_path, options, recovery)


def check_recovery(tmp_path, options, recovery):
    """Against the program's from ex.npz: the bytes of the layer, and the certificate."""
    layer = tmp_path / "layer.npz"
    layer.unlink(missing_ok=True)
    done = subprocess.run(
        command("recover", tmp_path / "ex.npz", options, "--json -o", layer), capture_output=True, check=False
    )
    if recovery.layer is None:
        assert done.returncode == 3 and not layer.exists()
    else:
        recovery.layer.save(tmp_path / "python.npz")
        assert done.returncode == 0 and (tmp_path / "python.npz").read_bytes() == layer.read_bytes()
    found, certificate = json.loads(done.stdout), json.loads(recovery.certificate.to_json())
    assert without_times(certificate) == without_times(found) and list(certificate) == list(found)


@pytest.mark.filterwarnings("ignore::headlens.NumericalWarning")
@pytest.mark.parametrize("heads,noise", [(2, 0.0), (1, 0.1)])
def test_other_methods_and_best_fits(heads, noise, tmp_path):
    X, Y = headlens.AttentionLayer.random(heads=2, dim=4, seed=1).examples(count=80, noise=noise, seed=2)
    np.savez(tmp_path / "ex.npz", X=X, Y=Y)
    for options in {"method": "moments"}, {"method": "gradient", "steps": 40, "starts": 1}:
        options["heads"] = heads
        check_recovery(tmp_path, in_words(options), headlens.recover(X, Y, **options))
    recovery = headlens.recover(X, Y, heads, best_fit=True)
    found = run_json("recover", tmp_path / "ex.npz", "--best-fit --heads", heads, "-o", tmp_path / "l.npz")
    assert without_times(recovery.certificate.to_dict()) == without_times(found)
    assert recovery.status == "best_fit" and "excess error" in repr(recovery)
    for name, array in (("Theta", recovery.layer.theta), ("W", recovery.layer.w)):
        np.testing.assert_array_equal(np.load(tmp_path / "l.npz")[name], array)


def test_generated_data(tmp_path):
    run(
        "generate correlation --pure --matrix shift --keys 2:6 --dim 4 --count 20 --seed 3 --noise 0.1 -o",
        tmp_path / "s",
    )
    X, y = headlens.generate(
        "correlation", pure=True, matrix="shift", keys=(2, 6), dim=4, count=20, seed=3, noise=0.1
    )
    with np.load(tmp_path / "s") as data:
        for name, array in (("query", X.query), ("keys", X.keys), ("offsets", X.offsets), ("y", y)):
            np.testing.assert_array_equal(data[name], array)
    run("generate power-mean --degree 2 --keys 3 --dim 4 --count 20 --precision f32 -o", tmp_path / "e")
    X, y = headlens.generate("power-mean", degree=2, keys=3, dim=4, count=20, precision="f32")
    with np.load(tmp_path / "e") as data:
        np.testing.assert_array_equal(data["query"], X[:, 0])
        np.testing.assert_array_equal(data["keys"], X[:, 1:])
        np.testing.assert_array_equal(data["y"], y)
    run(
        "generate attention-layer --heads 3 --dim 4 --count 9 --seed 2 --noise 0.1 --layer-out",
        tmp_path / "l",
        "-o",
        tmp_path / "x",
    )
    layer = headlens.AttentionLayer.random(heads=3, dim=4, seed=2)
    layer.save(tmp_path / "p")
    assert (tmp_path / "p").read_bytes() == (tmp_path / "l").read_bytes()
    with np.load(tmp_path / "x") as data:
        for drawn, name in zip(layer.examples(9, noise=0.1, seed=2), "XY"):
            np.testing.assert_array_equal(data[name], drawn)


HARD = [  # task, options of the layer, options of its examples
    ("hard-parity", {"dim": 12, "size": 2, "sharpness": 9.0}, {"count": 300}),
    ("hard-parity", {"dim": 12, "size": 2}, {"count": 400, "flips": 0.2}),
    ("hard-parity", {"dim": 12, "size": 3}, {"count": 300, "noise": 0.1, "flips": 0.3}),
    ("hard-parity", {"dim": 12, "size": 3}, {"count": 20}),
    ("hard-rounding", {"dim": 10, "modulus": 5, "levels": 3, "weight": 4, "sharpness": 25.0}, {"count": 300}),
]
LEARNERS = [
    {"method": "brute-force", "max_heads": 8},
    {"method": "brute-force", "heads": 4},
    {"method": "linear-algebra"},
]


def in_words(options):
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())


@pytest.mark.filterwarnings("ignore::headlens.NumericalWarning")
@pytest.mark.parametrize("task,drawn,examples", HARD)
def test_hard_layers_and_their_learners(task, drawn, examples, tmp_path):
    files = "--layer-out", tmp_path / "cli.npz", "-o", tmp_path / "ex.npz"
    run("generate", task, in_words(drawn), in_words(examples), "--seed 5", *files)
    layer = getattr(headlens.AttentionLayer, task.replace("-", "_"))(**drawn, seed=5)
    layer.save(tmp_path / "python.npz")
    assert (tmp_path / "python.npz").read_bytes() == (tmp_path / "cli.npz").read_bytes()
    X, Y = layer.examples(**examples, seed=5)
    with np.load(tmp_path / "ex.npz") as data:
        np.testing.assert_array_equal(data["X"], X)
        np.testing.assert_array_equal(data["Y"], Y)
    for parameters in LEARNERS:
        check_recovery(tmp_path, in_words(parameters), headlens.recover(X, Y, **parameters))


@pytest.mark.parametrize("dim,degree", [(5, 6), (14, 2)], ids=["exact", "sampled"])
@pytest.mark.parametrize("kind", ["parity", "rounding", "any"])
def test_fourier_coefficients(kind, dim, degree, tmp_path):
    hard = {"parity": headlens.AttentionLayer.hard_parity, "rounding": headlens.AttentionLayer.hard_rounding}
    layer = hard[kind](dim=dim) if kind in hard else headlens.AttentionLayer.random(dim=dim, outputs=2)
    layer.save(tmp_path / "l.npz")
    options = {"fourier": degree, "samples": 500, "seed": 3}
    said = run_json("inspect", tmp_path / "l.npz", in_words(options), "--fourier-out", tmp_path / "f.npz")
    assert headlens.inspect(layer, **options) == {k: v for k, v in said.items() if k != "file"}
    assert (
        headlens.inspect(headlens.AttentionLayer.load(tmp_path / "l.npz"), **options)["label"]
        == said["label"]
    )
    found = headlens.fourier(layer, degree, samples=500, seed=3)
    assert found.exact == (dim == 5) and (found.hidden_levels is None) == (kind == "any")
    with np.load(tmp_path / "f.npz") as data:
        np.testing.assert_array_equal(data["subsets"], found.subsets)
        np.testing.assert_array_equal(data["values"], found.values)
    # The program's table, line for line.
    table = [line.rstrip() for line in repr(found).splitlines()[1:]]
    text = run("inspect", tmp_path / "l.npz", in_words(options)).stdout
    assert all(line in text for line in table)


def test_theory_inspection_and_comparison(tmp_path):
    found = run_json("theory correlation --degree 1 --pure --dim 8 --keys 4 --samples 64,1000 --model mlp")
    theory = headlens.theory(
        "correlation", degree=1, pure=True, dim=8, keys=4, samples=[64, 1000], model="mlp"
    )
    both = ["complexity", "variance", "samples", "bound", "square_bound", "predicted_error", "ridge"]
    both += ["kernel_mean", "kernel_most", "complexity_is_lower_bound"]
    for name in both:
        np.testing.assert_array_equal(getattr(theory, name), np.array(found[name], float))
    found = run_json("theory power-mean --degree 2 --dim 8 --samples 64,512 --heads 40 --error 0.5")
    theory = headlens.theory("power-mean", degree=2, dim=8, samples=[64, 512], heads=40, error=0.5)
    for name in (*both, "heads_needed", "kernel_variance", "kernel_deviation"):
        np.testing.assert_array_equal(getattr(theory, name), np.array(found[name], float))
    found = run_json("theory native --dim 6 --samples 64 --model brfa --bias-scale 0.5")
    theory = headlens.theory("native", dim=6, samples=64, model="brfa", bias_scale=0.5)
    for name in both:
        np.testing.assert_array_equal(getattr(theory, name), np.array(found[name], float))
    a, b = (headlens.AttentionLayer.random(heads=2, dim=4, seed=s) for s in (1, 2))
    a.save(tmp_path / "a.npz")
    b.save(tmp_path / "b.npz")
    assert vars(headlens.compare(a, b)) == run_json("compare", tmp_path / "a.npz", tmp_path / "b.npz")
    said = run_json("inspect", tmp_path / "a.npz", "--samples 300 --tokens 3 --tails")
    assert headlens.inspect(a, samples=300, tokens=3, tails=True) == {
        k: v for k, v in said.items() if k != "file"
    }


STUDY = """
name = "tiny"
command = "fit"
seeds = [1, 2]
[fixed]
task = "power-mean"
degree = 1
dim = 3
keys = 4
heads = 10
test-samples = 50
[grid]
samples = [16, 32]
"""
FIGURE = """
[[figure]]
kind = "learning-curves"
title = "Error"
x = "samples"
y = "nmse"
"""


def test_studies_share_a_store_with_the_program(tmp_path):
    file, store = tmp_path / "tiny.toml", tmp_path / "results.db"
    file.write_text(STUDY)
    run("study run", file, "--set 'grid.samples=[16]' -o", store)
    study = headlens.Study(file)
    assert study.status(store) == {"done": 2, "failed": 0, "running": 0, "missing": 2}
    summary = study.run(store)
    assert (summary["already_done"], summary["ran"], summary["failed"]) == (2, 2, 0)
    assert run_json("study status", store)["studies"][-1]["done"] == 4
    assert study.export_csv(store) == run("study export", store, "--study tiny").stdout
    rows = study.results(store)
    assert [row["samples"] for row in rows] == [16, 16, 32, 32] and all(row["nmse"] > 0 for row in rows)
    assert repr(study) == "Study('tiny')"
    with pytest.raises(ValueError, match="tiny.toml.*:13: grid.sampels"):
        headlens.Study(file, ["grid.sampels=[3]"])
    with pytest.raises(ValueError, match="^study:2: name"):
        headlens.Study.from_text("\nname = 3")


def test_a_failed_cell_is_a_warning(tmp_path):
    study = headlens.Study.from_text(STUDY)
    with pytest.warns(headlens.NumericalWarning, match="4 of 4 cells failed"):
        study.run(tmp_path / "s.db", max_memory="4K")
    assert all("may be used" in row["error"] for row in study.results(tmp_path / "s.db"))


@pytest.mark.skipif(shutil.which("gnuplot") is None, reason="gnuplot is not installed")
def test_reports(tmp_path):
    study = headlens.Study.from_text(STUDY + FIGURE)
    study.run(tmp_path / "r.db")
    made = study.report(tmp_path / "r.db", tmp_path / "python")
    found = run_json("report", tmp_path / "r.db", "-o", tmp_path / "program")
    assert made["page"].read_text().startswith("<!doctype html>")
    assert made["findings"] == [{k: v for k, v in f.items() if k != "study"} for f in found["findings"]]
    assert (
        made["figures"] == [figure["name"] for figure in found["figures"]] and made["cells"] == found["cells"]
    )
