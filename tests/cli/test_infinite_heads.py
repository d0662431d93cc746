"""fit --heads inf: kernel ridge regression against NumPy, its model files, centres, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from binary import fit, predict, read_model, refuse, run, run_json

GOLDEN = Path(__file__).parent / "golden"
LAYOUTS = ["rectangular", "ragged", "sequence"]
MODELS = [
    "--model rfa",
    "--model brfa",
    "--model brfa --score step",
    "--score exp --weight-scale 0.1",
    "--model mlp",
]


def kernel(tmp_path, *args):
    run("kernel", *args, "-o", tmp_path / "k.npy")
    return np.load(tmp_path / "k.npy")


def kernel_ridge(k, y, ridge, intercept=True):
    """(coefficients, intercept): K a + n ridge a + b = y, 1^T a = 0."""
    n = len(k)
    border = np.full((n, 1), float(intercept))
    system = np.block(
        [[k + n * ridge * np.eye(n), border], [border.T, np.array([[0.0 if intercept else 1.0]])]]
    )
    solution = np.linalg.solve(system, np.vstack([y.reshape(n, -1), np.zeros((1, y.size // n))]))
    return solution[:n], solution[n]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", MODELS)
def test_fit_is_kernel_ridge(make_sets, tmp_path, model, layout):
    if "mlp" in model and layout == "ragged":
        pytest.skip("mlp takes sets of one size only")
    data = make_sets(layout, n=30 if layout != "sequence" else 8, d=3, keys=4, q=2)
    sequence = "--sequence" if layout == "sequence" else ""
    report = fit(data.path, tmp_path / "m", "--heads inf --ridge 1e-2", model, sequence)
    assert report["status"] == "solved" and report["heads"] == "inf" and report["residual"] < 1e-10
    k = kernel(tmp_path, data.path, model, sequence)
    y = data["y"].reshape(len(k), 2)
    a, b = kernel_ridge(k, y, 1e-2)
    tensors, metadata = read_model(tmp_path / "m")
    assert metadata["heads"] == "inf" and metadata["format_version"] == "1"
    assert np.allclose(tensors["values"], a, rtol=1e-7, atol=1e-9 * np.abs(a).max())
    expected = k @ a + b
    found = predict(tmp_path / "m", data.path).reshape(expected.shape)
    assert np.abs(found - expected).max() <= 1e-9 * np.abs(expected).max()
    assert report["train_loss"] == pytest.approx(np.mean((expected - y) ** 2), rel=1e-7)


@pytest.mark.parametrize(
    "options", ["", "--centres 11", "--no-intercept", "--ridge 0", "--ridge 1e-3 --centres 30"]
)
def test_predictions_follow_from_the_file(make_sets, tmp_path, options):
    """f(x) = b + sum_i K(x, z_i) a_i, with the sets z of the file, on sets that were not seen."""
    train = make_sets("ragged", n=30, d=2)
    fresh = make_sets("ragged", n=50, d=2, seed=1, name="fresh", keys=9)
    fit(train.path, tmp_path / "m", "--model brfa --heads inf", options)
    tensors, metadata = read_model(tmp_path / "m")
    np.savez(tmp_path / "support.npz", **{k: tensors[k] for k in ("query", "keys", "offsets")})
    k = kernel(tmp_path, fresh.path, tmp_path / "support.npz", "--model brfa")
    expected = (k @ tensors["values"] + tensors["intercept"])[:, 0]
    assert np.allclose(predict(tmp_path / "m", fresh.path), expected, rtol=1e-9, atol=1e-9)
    assert metadata["report.fitted_intercept"] == ("false" if "no-intercept" in options else "true")


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_positions_are_in_the_file(make_sets, tmp_path, precision):
    data = make_sets("sequence", n=6, d=4, keys=5)
    options = f"--sequence --positions sinusoidal --precision {precision}"
    fit(data.path, tmp_path / "m", "--heads inf --ridge 1e-2", options)
    tensors, _ = read_model(tmp_path / "m")
    assert tensors["query"].shape == (30, 4) and tensors["keys"].shape == (30, 4, 4)
    assert tensors["query"].dtype == {"f32": np.float32, "f64": np.float64}[precision]
    assert tensors["values"].dtype == np.float64
    k = kernel(tmp_path, data.path, options)
    a, b = kernel_ridge(k.astype(float), data["y"], 1e-2)
    found = predict(tmp_path / "m", data.path)
    assert found.shape == (6, 5)
    assert np.allclose(found.ravel(), (k @ a + b)[:, 0], atol=1e-4 if precision == "f32" else 1e-9)


def test_leave_one_out(make_sets, tmp_path):
    """Every trial of the report against refits without each set, the total penalty n ridge kept."""
    data = make_sets("ragged", n=18, d=2)
    report = fit(data.path, tmp_path / "m", "--heads inf")
    assert report["ridge_rule"] == "leave-one-out"
    k, y = kernel(tmp_path, data.path), data["y"]
    for trial in report["trials"][2:14:3]:
        errors = []
        for out in range(18):
            rest = np.delete(np.arange(18), out)
            a, b = kernel_ridge(k[np.ix_(rest, rest)], y[rest], trial["ridge"] * 18 / 17)
            errors.append(y[out] - k[out, rest] @ a[:, 0] - b[0])
        assert trial["error"] == pytest.approx(np.mean(np.square(errors)), rel=1e-6)
    assert report["ridge"] == min(report["trials"], key=lambda t: (t["error"], -t["ridge"]))["ridge"]


def test_small_memory_takes_centres_and_says_so(tmp_path):
    data, fresh = tmp_path / "data.npz", tmp_path / "fresh.npz"
    task = "generate power-mean --degree 2 --dim 3 --keys 4 --noise 0.01"
    run(task, "--count 900 --seed 1 -o", data)
    run(task, "--count 900 --seed 2 -o", fresh)
    exact = fit(data, tmp_path / "exact", "--heads inf")
    for options in ("", "--ridge 1e-6", "--ridge 1e-6 --solver iterative"):
        line = ("fit", data, "-o", tmp_path / "small", "--heads inf --max-memory 12M --json", options)
        done = run(*line)
        assert "centres" in done.stderr and "Nystrom" in done.stdout and '"status": "solved"' in done.stdout
        rows = read_model(tmp_path / "small")[0]["values"].shape[0]
        assert 50 < rows < 900
        whole, part = (run_json("evaluate", tmp_path / m, fresh)["nmse"] for m in ("exact", "small"))
        assert part <= 1.5 * whole + 0.01
    assert exact["predicted_peak_bytes"] > 12 << 20
    line = refuse("fit", data, "-o", tmp_path / "m", "--heads inf --max-memory 500K", folder=tmp_path)
    assert "needs" in line and "500.0 KiB" in line


@pytest.mark.parametrize(
    "options", ["", "--ridge 1e-3", "--centres 100", "--centres 100 --ridge 1e-3", "--precision f32"]
)
def test_same_bytes(tmp_path, options):
    data = tmp_path / "data.npz"
    run("generate native --dim 3 --keys 1:5 --count 300 -o", data)
    one, three = tmp_path / "one", tmp_path / "three"
    fit(data, one, "--model brfa --heads inf --threads 1", options)
    fit(data, three, "--model brfa --heads inf --threads 3 --block-sets 64", options)
    assert one.read_bytes() == three.read_bytes()
    assert np.array_equal(predict(one, data, "--threads 1"), predict(one, data, "--threads 3"))


@pytest.mark.parametrize("loss", ["huber", "logistic", "hinge"])
def test_other_losses(make_sets, tmp_path, loss):
    data = make_sets(n=60, y=np.arange(60) % 2)
    report = fit(data.path, tmp_path / "m", f"--heads inf --ridge 1e-4 --loss {loss}")
    assert report["status"] == "solved" and "Nystrom with 60 centres" in report["method"]
    if loss != "huber":
        assert run_json("evaluate", tmp_path / "m", data.path)["accuracy"] > 0.9


@pytest.mark.parametrize("options", [
    "--heads inf --score softmax", "--heads inf --norm-ball 1,1", "--heads inf --centres 0",
    "--heads inf --centres 21", "--heads inf --centres x", "--heads inf --centres 5 --solver dual",
    "--heads 10 --centres 5", "--heads infinite", "--heads INF", "--heads 9223372036854775807",
])  # fmt: skip
def test_bad_options(make_sets, tmp_path, options):
    data = make_sets(n=20)
    refuse("fit", data.path, "-o", tmp_path / "m", options, folder=tmp_path)


def test_golden_file(tmp_path):
    """A file of the first version loads, predicts what it predicted, and would be written with the same names."""
    expected = np.load(GOLDEN / "predictions.npy")
    found = predict_golden(tmp_path)
    assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()
    tensors, metadata = read_model(GOLDEN / "infinite_heads.hlm")
    fit(GOLDEN / "sets.npz", tmp_path / "again", "--model brfa --heads inf --ridge 1e-3 --precision f32")
    again, meta = read_model(tmp_path / "again")
    assert metadata.keys() | {"report.backend"} == meta.keys()  # which the first version did not have
    assert {k: (t.dtype, t.shape) for k, t in tensors.items()} == {
        k: (t.dtype, t.shape) for k, t in again.items()
    }
    assert np.allclose(tensors["values"], again["values"], rtol=1e-6)


def predict_golden(tmp_path):
    run("predict", GOLDEN / "infinite_heads.hlm", GOLDEN / "sets.npz", "-o", tmp_path / "p.npy")
    return np.load(tmp_path / "p.npy").astype(float)


BROKEN = {
    "a NaN": lambda t: t["values"].__setitem__((0, 0), np.nan),
    "offsets that fall": lambda t: t["offsets"].__setitem__(1, 0),
    "offsets past the end": lambda t: t["offsets"].__setitem__(-1, 10**9),
    "too few values": lambda t: t.__setitem__("values", t["values"][1:]),
    "too few coordinates": lambda t: t.__setitem__("query", t["query"][:, 1:]),
    "no keys": lambda t: t.pop("keys"),
    "float values": lambda t: t.__setitem__("values", t["values"].astype(np.float32)),
    "float offsets": lambda t: t.__setitem__("offsets", t["offsets"].astype(np.float64)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(tmp_path, case):
    from golden.make import write_safetensors

    tensors, metadata = read_model(GOLDEN / "infinite_heads.hlm")
    tensors = {k: t.copy() for k, t in tensors.items()}
    write_safetensors(tmp_path / "same", tensors, metadata)
    run("evaluate", tmp_path / "same", GOLDEN / "sets.npz")
    BROKEN[case](tensors)
    write_safetensors(tmp_path / "broken", tensors, metadata)
    assert "broken" in refuse("evaluate", tmp_path / "broken", GOLDEN / "sets.npz", folder=tmp_path)
