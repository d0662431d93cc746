"""Best fits, moments and gradient descent from the outside: what they may say, and what they write."""

import json

import numpy as np
import pytest
from binary import refuse, run, run_json
from test_recover import layer, teacher


def save(folder, x, y):
    np.savez(folder / "ex.npz", X=x, Y=y)
    return folder / "ex.npz"


def network(rng, x):
    """Outputs of a random network with one hidden layer that reads all tokens at once."""
    flat = x.reshape(len(x), -1)
    first, second = rng.normal(size=(flat.shape[1], 16)), rng.normal(size=(16, flat.shape[1])) / 4
    return (np.maximum(flat @ first, 0) @ second).reshape(x.shape)


@pytest.mark.parametrize("labels", ["noise", "network", "bias", "more heads"])
def test_a_best_fit_is_never_called_recovered(tmp_path, labels):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((240, 3, 4))
    theta, w = teacher(rng, 4 if labels == "more heads" else 2, 4, 4, 2.0)
    y = {
        "noise": rng.standard_normal(x.shape),
        "network": network(rng, x),
        "bias": layer(theta, w, x) + 0.5,
        "more heads": layer(theta, w, x),
    }[labels]
    found = run_json("recover", save(tmp_path, x, y), "--best-fit --heads 2 -o", tmp_path / "l.npz")
    assert found["status"] == "best_fit" and found["heads"] == 2 and found["per_head"] == []
    assert found["held_out_error"] > (0.9 if labels == "noise" else 1e-3)
    assert found["best_fit"]["noise_floor"] is None and found["best_fit"]["excess_error"] is None
    with np.load(tmp_path / "l.npz") as file:
        assert file["certified"] == 0
        residual = layer(file["Theta"], file["W"], x) - y
    # The reported errors are those of the layer in the file: 30 held-out examples at the end.
    for error, part in ("train_error", slice(None, 210)), ("held_out_error", slice(210, None)):
        expected = np.linalg.norm(residual[part]) / np.linalg.norm(y[part])
        assert found[error] == pytest.approx(expected, rel=1e-9)


def test_the_noise_floor_is_the_spread_of_labels_of_one_input(tmp_path):
    rng = np.random.default_rng(2)
    x = np.repeat(rng.standard_normal((80, 3, 4)), 3, axis=0)
    y = network(rng, x)
    y += 0.4 * y.std() * rng.standard_normal(y.shape)
    order = rng.permutation(240)
    found = run_json("recover", save(tmp_path, x[order], y[order]), "--best-fit --heads 1 -o", tmp_path / "l")
    report, held = found["best_fit"], found["held_out"]
    # Whole inputs, in the order in which each comes first; at least the last eighth.
    first = sorted(range(80), key=lambda i: min(np.flatnonzero(order // 3 == i)))
    assert report["repeats"] == 160 and held == 30
    shown = np.concatenate([y[3 * i : 3 * i + 3] for i in first])[-held:]
    variance = y.reshape(80, 3, -1).var(axis=1, ddof=1).mean()
    assert report["noise_floor"] == pytest.approx(np.sqrt(variance * shown.size / (shown**2).sum()), rel=1e-9)
    assert report["excess_error"] ** 2 + report["noise_floor"] ** 2 == pytest.approx(
        found["held_out_error"] ** 2
    )
    assert report["excess_interval"][0] < report["excess_error"] < report["excess_interval"][1]


def test_same_bytes_for_any_number_of_threads(tmp_path):
    run(
        "generate attention-layer --heads 3 --dim 6 --tokens 4 --count 300 --noise 0.1 -o",
        tmp_path / "ex.npz",
    )
    for options in "--best-fit", "--method moments", "--method gradient --steps 40 --starts 1":
        for threads in (1, 2):
            keep = "--keep-uncertified", tmp_path / f"{threads}.npz"
            words = "--heads 2 --threads", threads, options, *keep, "-o", tmp_path / "l.npz"
            run("recover", tmp_path / "ex.npz", *words, status=0 if options == "--best-fit" else 3)
        assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()


def test_the_path_of_gradient_descent(tmp_path):
    run("generate attention-layer --heads 1 --dim 5 --count 80 --noise 0.1 -o", tmp_path / "ex.npz")
    words = "--method gradient --heads 1 --steps 30 --starts 2 --json -o", tmp_path / "l.npz"
    found = json.loads(run("recover", tmp_path / "ex.npz", *words, status=3).stdout)
    assert [p["step"] for p in found["trace"]] == [*range(31), *range(31)]
    assert min(p["held_out_error"] for p in found["trace"][30::31]) == found["held_out_error"]
    assert "30 steps" in found["reason"] and not (tmp_path / "l.npz").exists()


BAD = {
    "--best-fit": "expected a number with a best fit",
    "--best-fit --heads 2 --method sculpt": "expected method varpro",
    "--method gradient": "expected a number with method gradient",
    "--method gradient --heads 2 --steps 0": "steps: 0 given",
    "--method moments": "four tokens",
}


@pytest.mark.parametrize("options", BAD)
def test_bad_options(tmp_path, options):
    run("generate attention-layer --tokens 3 --count 30 -o", tmp_path / "ex.npz")
    done = run("recover", tmp_path / "ex.npz", options, "-o", tmp_path / "l.npz", status=2)
    assert BAD[options] in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "options", ["--method gradient --steps 1000000000", "--method moments", "--best-fit"]
)
def test_the_time_limit_is_a_status(tmp_path, options):
    run("generate attention-layer --dim 16 --tokens 8 --count 6000 --noise 1 -o", tmp_path / "ex.npz")
    words = "--heads 6 --time-limit 0.3 --json -o", tmp_path / "l.npz"
    done = run("recover", tmp_path / "ex.npz", options, *words, status=3)
    assert json.loads(done.stdout)["status"] == "stalled"


def test_zero_labels_have_nothing_to_learn(tmp_path):
    x = np.random.default_rng(0).standard_normal((60, 4, 3))
    np.savez(tmp_path / "ex.npz", X=x, Y=np.zeros((60, 4, 2)))
    words = ("recover", tmp_path / "ex.npz", "--method gradient --heads 1 --steps 50 -o", tmp_path / "l.npz")
    found = run_json(*words, status=3)
    assert found["status"] == "not_identified" and found["train_error"] == 1


@pytest.mark.parametrize("limit", ["0.001", "0.01", "0.1"])
def test_a_best_fit_that_runs_out_of_time_is_not_recovered_either(tmp_path, limit):
    """Tokens that are constant within an example leave Theta arbitrary, and any layer fits at once."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(300, 1, 4)), 4, axis=1)
    words = (
        "recover",
        save(tmp_path, x, x @ rng.normal(size=(4, 4))),
        "--best-fit --heads 2 --time-limit",
        limit,
    )
    found = run_json(*words, "-o", tmp_path / "l.npz", status=None)
    assert found["status"] in ("best_fit", "stalled")


def test_options_of_another_method_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 4, 3))
    examples = save(tmp_path, x, layer(*teacher(rng, 1, 3, 3, 2.0), x))
    for option in "--no-polish", "--steps 10", "--sculpt-form lp", "--span-form membership":
        assert "method" in refuse("recover", examples, option, "-o", tmp_path / "l.npz", folder=tmp_path)


def test_one_example_has_no_held_out_error(tmp_path):
    """One example is trained on, and nothing is left to hold out: no error is made up."""
    rng = np.random.default_rng(5)
    data = save(tmp_path, rng.standard_normal((1, 4, 3)), rng.standard_normal((1, 4, 3)))
    for options in ("--best-fit --heads 1", "--method gradient --heads 1 --steps 5", "--heads 1"):
        report = run_json("recover", data, options, "-o", tmp_path / "layer.npz", status=None)
        assert report["held_out"] == 0 and report["held_out_error"] is None, options
        text = run("recover", data, options, "-o", tmp_path / "layer.npz", status=None).stdout
        assert "held-out error    none: no example was held out" in text, options


@pytest.mark.parametrize("method", ["sculpt", "moments"])
def test_more_heads_than_directions_are_refused(tmp_path, method):
    rng = np.random.default_rng(6)
    data = save(tmp_path, np.sign(rng.standard_normal((40, 4, 3))), rng.standard_normal((40, 4, 3)))
    line = refuse(
        f"recover --method {method} --heads 10", data, "-o", tmp_path / "layer.npz", folder=tmp_path
    )
    assert "--heads: 10 given, expected at most 9 with method" in line
