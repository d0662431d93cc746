"""headlens theory: known numbers, predictions against fits with infinitely many heads, JSON, refusals."""

import json

import numpy as np
import pytest
from binary import fit, refuse, run, run_json

TASKS = ["power-mean", "correlation", "native", "query-power"]


def test_known_complexities():
    def complexity(*args):
        return run_json("theory", *args, "--dim 16 --samples 64")["complexity"]

    for degree, known in enumerate((3.3, 11.9, 146, 3067, 8436, 32300), 1):
        assert complexity(f"power-mean --degree {degree}") == pytest.approx(known, rel=0.01)
    for degree, known in enumerate((90, 6905, 1.8e5, 1.5e6), 1):
        assert complexity(f"correlation --degree {degree}") == pytest.approx(known, rel=0.03)


def test_growth_exponents():
    """B grows as d^p on correlations; without attention it is N^(p - 1) times larger on power means."""

    def complexity(target, dim, keys, model="rfa"):
        return run_json(f"theory {target} --dim {dim} --keys {keys} --model {model} --samples 64")[
            "complexity"
        ]

    for p in (1, 2, 3, 4):
        correlation, power_mean = f"correlation --degree {p}", f"power-mean --degree {p}"
        growth = complexity(correlation, 1024, 16) / complexity(correlation, 512, 16)
        assert np.log2(growth) == pytest.approx(p, abs=0.02)
        few, many = (complexity(power_mean, 16, keys, "mlp") for keys in (256, 512))
        assert np.log2(many / few) == pytest.approx(p - 1, abs=0.02)


def test_json_and_table():
    found = run_json("theory power-mean --degree 2 --samples 64:1000")
    assert found["samples"] == [64, 128, 256, 512]
    scale = found["complexity"] * found["kernel_mean"]
    assert found["bound"] == pytest.approx([2 * np.sqrt(scale / n) for n in found["samples"]])
    assert len(found["predicted_error"]) == len(found["ridge"]) == 4
    assert sorted(found["predicted_error"], reverse=True) == found["predicted_error"]
    assert found["variance"] == pytest.approx(2 * 15 / (16 * 16 * 18) / 16)  # Var(T^2) / N
    lines = run("theory power-mean --degree 2 --samples 64:1000").stdout.splitlines()
    assert len(lines) == 7 and lines[2].split() == ["samples", "bound", "predicted", "error"]
    for line, *numbers in zip(lines[3:], found["samples"], found["bound"], found["predicted_error"]):
        assert [float(word) for word in line.split()] == pytest.approx(numbers, rel=1e-3)


@pytest.mark.parametrize("text, expected", [("64:64", [64]), ("100", [100]), ("300,2,77", [300, 2, 77])])
def test_samples(text, expected):
    assert run_json("theory native --samples", text)["samples"] == expected


def test_low_dimensions_are_noted():
    assert "note: in 3 dimensions measured errors lie above" in run("theory native --dim 3").stderr
    assert run("theory native --dim 5").stderr == ""


def test_constant_targets_have_no_error():
    found = run_json("theory power-mean --degree 0 --samples 100,200")
    assert found["predicted_error"] == [None, None] and found["complexity"] > 0
    assert run("theory power-mean --degree 0 --samples 100").stdout.split()[-1] == "-"


@pytest.mark.parametrize("model", ["rfa", "mlp"])
@pytest.mark.parametrize("task", ["correlation", "native"])
def test_the_matrix_changes_nothing(task, model):
    found = [
        run(f"theory {task} --matrix {matrix} --model {model}").stdout
        for matrix in ("identity", "shift", "random")
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("model, keys", [("rfa", 1), ("rfa", 3), ("mlp", 1)])
def test_norms_through_examples_approach_the_complexity(tmp_path, model, keys):
    """y^T K^-1 y from below."""
    shape = f"correlation --dim 3 --keys {keys}"
    limit = run_json(f"theory {shape} --model {model} --samples 64")["complexity"]
    run(f"generate {shape} --matrix random --count 1000 -o", tmp_path / "data.npz")
    run("kernel", tmp_path / "data.npz", f"--model {model} -o", tmp_path / "k.npy")
    k, y = np.load(tmp_path / "k.npy"), np.load(tmp_path / "data.npz")["y"]
    norms = [y[:n] @ np.linalg.solve(k[:n, :n] + 1e-13 * np.eye(n), y[:n]) for n in (250, 500, 1000)]
    assert norms[0] < norms[1] < norms[2] < limit and norms[2] > 0.95 * limit


@pytest.mark.parametrize(
    "target, model, penalty",
    [
        ("power-mean --degree 2", "rfa", "auto"),
        ("query-power --degree 2", "rfa", "auto"),
        ("correlation --pure --noise 0.02", "rfa", "predicted"),
        ("power-mean --degree 2", "mlp", "predicted"),
        ("correlation --pure", "brfa", "predicted"),
        ("power-mean --degree 2", "brfa", "auto"),
    ],
)
def test_measured_errors_are_the_predicted_ones(tmp_path, target, model, penalty):
    """Within 10%, or two standard errors over ten seeds, as tests/long/test_theory.py at full size."""
    shape, train, test = f"{target} --dim 6 --keys 3", tmp_path / "train.npz", tmp_path / "test.npz"
    theory = run_json(f"theory {shape} --model {model} --samples 80,240")
    for n, predicted, best in zip(theory["samples"], theory["predicted_error"], theory["ridge"]):
        ridge = best if penalty == "predicted" else "auto"
        errors = []
        for seed in range(10):
            run(f"generate {shape} --target-seed {seed} --count {n} --seed {100 + seed} -o", train)
            run(f"generate {shape} --target-seed {seed} --count 1000 --seed {200 + seed} -o", test)
            fit(train, tmp_path / "m", f"--model {model} --heads inf --ridge {ridge}")
            errors.append(run_json("evaluate", tmp_path / "m", test)["nmse"])
        deviation = np.std(errors, ddof=1) / np.sqrt(len(errors))
        assert abs(np.mean(errors) - predicted) <= max(0.1 * predicted, 2 * deviation), (n, predicted, errors)


@pytest.mark.parametrize("heads", [10, 40])
def test_measured_errors_of_finitely_many_heads_are_the_predicted_ones(tmp_path, heads):
    """The same with drawn heads, at the predicted penalty."""
    shape = "power-mean --degree 2 --dim 8 --keys 4"
    theory = run_json(f"theory {shape} --heads {heads} --samples 400")
    [predicted], [ridge], errors = theory["predicted_error"], theory["ridge"], []
    for seed in range(12):
        train, test = tmp_path / "train.npz", tmp_path / "test.npz"
        run(f"generate {shape} --target-seed {seed} --count 400 --seed {100 + seed} -o", train)
        run(f"generate {shape} --target-seed {seed} --count 1000 --seed {200 + seed} -o", test)
        fit(train, tmp_path / "m", f"--heads {heads} --ridge {ridge} --seed {seed}")
        errors.append(run_json("evaluate", tmp_path / "m", test)["nmse"])
    deviation = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - predicted) <= max(0.1 * predicted, 2 * deviation), (predicted, errors)


@pytest.mark.parametrize("dim", [50, 120, 300, 1000])
def test_heads_around_zero_are_those_of_rfa_or_refused(dim):
    """A bias of 0 is rfa; where rounding hides the complexity of brfa, none is printed."""
    words = f"theory native --dim {dim} --keys 4 --samples 64"
    exact = run_json(words)["complexity"]
    done = run(words, "--model brfa --bias-scale 0 --json", status=None)
    if done.returncode == 0:
        found = json.loads(done.stdout)
        bound = found["complexity_is_lower_bound"]
        assert 0 < found["complexity"] <= exact * 1.001 and (bound or found["complexity"] >= exact * 0.99)
    else:
        assert done.returncode == 2 and "lost in rounding" in done.stderr


def test_heads_needed():
    found = run_json("theory power-mean --degree 2 --dim 8 --heads 50 --error 0.4 --samples 100,400,1600")
    first, second, third = found["heads_needed"]
    assert first is None and second > third > 1  # more sets make up for fewer heads, but not for too few sets
    for heads, above in ((third, False), (third - 1, True)):
        line = f"theory power-mean --degree 2 --dim 8 --heads {heads} --samples 1600"
        assert (run_json(line)["predicted_error"][0] > 0.4) == above
    lines = run("theory power-mean --degree 2 --dim 8 --error 0.4 --samples 100,1600").stdout.splitlines()
    assert lines[2].split()[-2:] == ["heads", "needed"]
    assert lines[3].split()[-1] == "-" and lines[4].split()[-1] == str(third)


@pytest.mark.parametrize("model", ["rfa", "mlp", "brfa"])
def test_the_bound_is_twice_a_drawn_rademacher_complexity(tmp_path, model):
    """(R/n) E|sum_i s_i K(x_i, .)| = (R/n) E sqrt(s^T K s) lies between R sqrt(E[K(x, x)] / (2 n)) (Khintchine and
    Kahane) and R sqrt(E[K(x, x)] / n), half of the bound. 20 groups of 50 drawn sets, 200 draws of signs each; means
    differ from their limits by less than 5 of their standard errors, with probability 0.9999 each."""
    shape, n, groups = "native --dim 6 --keys 3", 50, 20
    theory = run_json(f"theory {shape} --model {model} --noise 0.1 --samples {n}")
    run(f"generate {shape} --count {n * groups} --seed 1 -o", tmp_path / "x.npz")
    run("kernel", tmp_path / "x.npz", f"--model {model} -o", tmp_path / "k.npy")
    k, rng = np.load(tmp_path / "k.npy"), np.random.default_rng(0)
    radius, diagonal = np.sqrt(theory["complexity"]), np.diag(k)
    spread = diagonal.std(ddof=1) / np.sqrt(len(diagonal))
    assert abs(diagonal.mean() - theory["kernel_mean"]) < 5 * spread + 1e-12
    drawn = []
    for first in range(0, n * groups, n):
        signs = rng.choice([-1.0, 1.0], (200, n))
        squares = np.einsum("si,ij,sj->s", signs, k[first : first + n, first : first + n], signs)
        drawn.append(radius / n * np.sqrt(squares).mean())
    complexity, error = np.mean(drawn), np.std(drawn, ddof=1) / np.sqrt(groups)
    half = theory["bound"][0] / 2
    assert half / np.sqrt(2) - 5 * error < complexity < half + 5 * error
    # K(x, x) is largest where all tokens are the same; the squared loss has slope 4 R sqrt(max K) on the ball.
    token = np.eye(6)[:1]
    np.savez(tmp_path / "one.npz", query=token, keys=np.stack([token[0]] * 3)[None])
    run("kernel", tmp_path / "one.npz", f"--model {model} -o", tmp_path / "one.npy")
    most = np.load(tmp_path / "one.npy")[0, 0]
    assert most == pytest.approx(theory["kernel_most"], rel=1e-9) and diagonal.max() <= most * (1 + 1e-9)
    slope = 4 * radius * np.sqrt(most)
    assert theory["square_bound"][0] == pytest.approx((2 * slope + 2 * 0.1) * half, rel=1e-9)


@pytest.mark.parametrize(
    "line, words",
    [
        ("power-mean --dim 1", ["dim: 1 given", "2 to 1000000"]),
        ("power-mean --keys 0", ["keys: 0 given"]),
        ("power-mean --keys 4:8", ["--keys"]),
        ("power-mean --degree 65", ["degree: 65 given", "0 to 64"]),
        ("power-mean --degree -1", ["degree: -1 given"]),
        ("power-mean --noise -1", ["noise: -1 given"]),
        ("correlation --model brfa --matrix shift", ["matrix: shift given", "identity"]),
        ("power-mean --model brfa --dim 2", ["dim: 2 given", "3 to 1000"]),
        ("power-mean --model brfa --degree 9", ["degree: 9 given", "0 to 8"]),
        ("native --model brfa --dim 5 --keys 1 --samples 1000000", ["samples", "degree 10", "dimension 5"]),
        ("native --model brfa --heads 10", ["heads", "rfa alone", "brfa is given"]),
        ("native --model mlp --error 0.1", ["error", "rfa alone", "mlp is given"]),
        ("native --bias-scale 1", ["bias-scale: rfa given", "brfa"]),
        ("native --model brfa --bias-scale 5", ["bias-scale", "-4 to 4"]),
        ("native --heads 0", ["heads: 0 given", "inf"]),
        ("native --error 0", ["error: 0 given", "a number above 0"]),
        ("power-mean --model lstm", ["lstm", "rfa"]),
        ("power-mean --samples 1", ["samples: '1' given", "2 or more"]),
        ("power-mean --samples 9:3", ["samples: '9:3' given", "A at most B"]),
        ("power-mean --samples 64:", ["samples: '64:' given"]),
        ("power-mean --samples 64,x", ["samples: '64,x' given"]),
        ("power-mean --samples ''", ["samples: '' given"]),
        ("power-mean --samples 99999999999999999999", ["samples: '99999999999999999999' given"]),
        ("power-mean --samples 9999999999999", ["samples: 9999999999999 given", "2^40"]),
        ("power-mean --dim 2 --samples 100000000", ["samples", "degree 511", "dimension 2"]),
        ("native --degree 2", ["--degree"]),
        ("query-power --pure", ["--pure"]),
        ("correlation --matrix diagonal", ["matrix"]),
        ("correlation --degree 64 --dim 1000000 --model mlp", ["complexity of correlation", "lower dim"]),
        ("mixture", ["mixture", "depends on beta"]),
        ("ordered --degree 2", ["ordered", "depends on the order of the keys", "--positions sinusoidal"]),
        ("", ["subcommand"]),
        ("parity", ["'parity' is not a command of headlens theory"]),
    ],
)
def test_refusals(line, words):
    message = refuse("theory", line)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", ["rfa", "mlp"])
@pytest.mark.parametrize("shape", ["--dim 2 --keys 1", "--dim 3000 --keys 2", "--dim 5 --keys 1000"])
def test_extreme_shapes_give_finite_numbers(task, model, shape):
    found = run_json(f"theory {task} {shape} --model {model} --samples 2,5000")
    assert all(np.isfinite(found[k]).all() for k in ("complexity", "variance", "bound", "predicted_error"))
    assert found["complexity"] > 0 and found["predicted_error"][1] < found["predicted_error"][0] < 2
