"""Figures: what is drawn, where, and from which numbers."""

import subprocess
import sys
import warnings

import headlens
import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def truth():
    return headlens.AttentionLayer.random(heads=3, dim=6, seed=2)


@pytest.fixture(scope="module")
def recovery(truth):
    return headlens.recover(*truth.examples(count=120))


@pytest.fixture(scope="module")
def failure(truth):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return headlens.recover(*truth.examples(count=8))


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    (found,) = (part for part in ax.get_lines() if part.get_label() == label)
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def test_matplotlib_comes_with_the_first_figure_only():
    code = (
        "import sys, headlens, headlens.plot; print('matplotlib' in sys.modules)\n"
        "headlens.plot.learning_curves({'a': ([1, 2], [0.5, 0.1])}); print('matplotlib' in sys.modules)\n"
        "sys.modules['matplotlib'] = None\n"
        "try: headlens.plot.learning_curves({'a': ([1, 2], [0.5, 0.1])})\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    first, second, message = done.stdout.splitlines()
    assert (first, second) == ("False", "True") and "pip install 'headlens[plot]'" in message


def test_every_function_has_an_example():
    for name in headlens.plot.__all__:
        assert ">>>" in getattr(headlens.plot, name).__doc__, name


def test_medians_and_bands():
    errors = np.array([[0.4, 0.2, 0.3], [0.02, 0.01, 0.03]])
    ax = headlens.plot.learning_curves({"a": ([64, 32], errors)})
    n, medians = line(ax, "a")
    assert n.tolist() == [32, 64]  # in order, whatever the order given
    np.testing.assert_allclose(medians, [0.02, 0.3])
    (band,) = ax.collections
    low, high = np.quantile(errors, [0.1, 0.9], axis=1)
    np.testing.assert_allclose(band.get_datalim(ax.transData).get_points()[:, 1], [low.min(), high.max()])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_what_has_no_logarithm_is_left_out():
    errors = [[0.5, -1], [0, np.nan], [0.1, 0.3], [0.1, 0.1]]
    ax = headlens.plot.learning_curves({"a": ([1, 2, 4, np.inf], errors)})
    n, medians = line(ax, "a")
    assert n.tolist() == [1, 4] and medians.tolist() == [0.5, 0.2]


def test_predictions_beside_points():
    sizes = [64, 256, 1024]
    theory = headlens.theory("power-mean", degree=2, dim=8, keys=4, samples=sizes)
    curves = {"attention": (sizes, [0.9, 0.2, 0.01]), "other": (sizes, [1, 1, 0.9])}
    _, given = pyplot.subplots()
    ax = headlens.plot.learning_curves(curves, theory={"attention": theory}, ax=given)
    assert ax is given and legend(ax) == ["other", "attention", "predicted"]
    drawn = {part.get_linestyle(): part for part in ax.get_lines() if len(part.get_xdata())}
    np.testing.assert_array_equal(drawn["--"].get_ydata(), theory.predicted_error)
    assert (theory.square_bound / theory.variance > 10).all() and ":" not in drawn  # it says nothing there
    assert drawn["--"].get_color() != line_colour(ax, "other")
    many = headlens.theory("power-mean", degree=1, dim=8, keys=1, samples=[2**20, 2**24, 2**28])
    curves = {"attention": (many.samples, [0.9, 0.2, 0.01])}
    ax = headlens.plot.learning_curves(curves, theory={"attention": many})
    drawn = {part.get_linestyle(): part for part in ax.get_lines() if len(part.get_xdata())}
    limit = many.square_bound / many.variance
    assert (limit < 10).any() and "bound" in legend(ax)
    np.testing.assert_array_equal(drawn[":"].get_ydata(), limit[limit < 10])
    ax = headlens.plot.learning_curves(curves, theory={"attention": many}, bound=False)
    assert "bound" not in legend(ax)


def line_colour(ax, label):
    return next(part.get_color() for part in ax.get_lines() if part.get_label() == label)


@pytest.mark.parametrize(
    "curves,options,message",
    [
        ({"a": ([1, 2], [0.1])}, {}, r"curves\['a'\]: errors \(1,\) for samples \(2,\)"),
        ({"a": ([1], [0.1])}, {"theory": {"b": None}}, "theory: 'b' given, expected one of 'a'"),
    ],
)
def test_curves_that_are_refused(curves, options, message):
    with pytest.raises(ValueError, match=message):
        headlens.plot.learning_curves(curves, **options)


STUDY = """
name = "tiny"
command = "fit"
seeds = [1, 2, 3]
record = ["nmse"]
[fixed]
task = "power-mean"
dim = 6
keys = 3
noise = 0.05
test-samples = 64
[grid]
degree = [1, 2]
samples = [16, 32]
[variants.model]
Kernel = {model = "rfa", heads = "inf"}
Heads = {model = "rfa", heads = 20}
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    store = tmp_path_factory.mktemp("study") / "results.db"
    study = headlens.Study.from_text(STUDY)
    study.run(store)
    return study.results(store)


def test_an_option_and_an_axis_of_one_name(rows):
    assert {row["model"] for row in rows} == {"rfa"}
    assert {row["variants.model"] for row in rows} == {"Kernel", "Heads"}


def test_curves_of_a_study(rows):
    axes = headlens.plot.study_curves(rows, series="variants.model", panel="degree", theory=True, bound=False)
    assert [ax.get_title() for ax in axes] == ["degree 1", "degree 2"]
    mine = [r["nmse"] for r in rows if (r["samples"], r["degree"], r["variants.model"]) == (32, 2, "Heads")]
    (bars,) = (c for c in axes[1].containers if c.get_label() == "Heads")
    assert len(mine) == 3 and bars.lines[0].get_ydata()[1] == pytest.approx(np.median(mine))
    # Theory speaks of targets without noise.
    assert set(legend(axes[0])) == {"Kernel", "Heads", "predicted"}
    lines = [p for p in axes[0].get_lines() if p.get_linestyle() == "--" and len(p.get_xdata())]
    assert len(lines) == 2
    (bars,) = (c for c in axes[0].containers if c.get_label() == "Kernel")
    (predicted,) = (p for p in lines if p.get_color() == bars.lines[0].get_color())
    found = headlens.theory("power-mean", dim=6, keys=3, noise=0.05, samples=[16, 32])
    noise = 0.05**2
    clean = (found.predicted_error * found.variance - noise) / (found.variance - noise)
    np.testing.assert_allclose(predicted.get_ydata(), clean)


def test_head_curves_have_their_prediction():
    shared = {
        "task": "power-mean",
        "degree": 2,
        "dim": 8,
        "keys": 4,
        "model": "rfa",
        "samples": 64,
        "status": "done",
    }
    cells = [
        {**shared, "heads": heads, "seed": seed, "nmse": 0.5 + seed / 100}
        for heads in (100, 10, "inf")
        for seed in (1, 2)
    ]
    (ax,) = headlens.plot.study_curves(cells[:4], x="heads", theory=True, bound=False)
    (line,) = (p for p in ax.get_lines() if p.get_linestyle() == "--" and len(p.get_xdata()))
    found = [
        headlens.theory("power-mean", degree=2, dim=8, keys=4, heads=m, samples=[64]).predicted_error[0]
        for m in (10, 100)
    ]
    np.testing.assert_array_equal(line.get_xdata(), [10, 100])
    np.testing.assert_array_equal(line.get_ydata(), found)
    usual = [{**cell, "weight-scale": 0.5, "bias-scale": 0.0} for cell in cells[:4]]
    assert "predicted" in legend(headlens.plot.study_curves(usual, x="heads", theory=True)[0])
    silent = [{**cell, "model": "mlp"} for cell in cells[:4]]
    (ax,) = headlens.plot.study_curves(silent, x="heads", theory=True)
    assert "predicted" not in legend(ax)


def test_cells_of_different_meaning_are_not_averaged(rows):
    with pytest.raises(ValueError, match="samples = 16 and the same seed; they differ in .*heads"):
        headlens.plot.study_curves(rows, panel="degree")
    with pytest.raises(ValueError, match="no column 'loss2', expected one of task, "):
        headlens.plot.study_curves(rows, series="loss2")
    kept = [row for row in rows if row["degree"] == 1 and row["heads"] == "inf"]
    assert len(headlens.plot.study_curves(kept)) == 1
    with pytest.raises(ValueError, match="no cell is done"):
        headlens.plot.study_curves([{**row, "status": "failed"} for row in kept])
    with pytest.raises(ValueError, match="axes: 2 given, expected 1 x 1"):
        headlens.plot.study_curves(kept, axes=pyplot.subplots(2)[1])


def test_heads_stand_above_their_match(truth, recovery):
    axes = headlens.plot.heads(recovery.layer, truth)
    assert axes.shape == (4, 3)
    for match in headlens.compare(recovery.layer, truth).matches:
        column = axes[:, match["a"]]
        drawn = [ax.images[0].get_array() for ax in column]
        np.testing.assert_array_equal(drawn[0], recovery.layer.theta[match["a"]])
        np.testing.assert_array_equal(drawn[1], truth.theta[match["b"]])
        np.testing.assert_array_equal(drawn[3], truth.w[match["b"]])
        assert column[0].get_title().startswith(f"head {match['a']} = truth {match['b']}")
    assert len({ax.images[0].get_clim() for ax in axes[:2].flat}) == 1  # one scale for all Theta


def test_heads_without_a_match_and_without_a_truth(truth):
    part = headlens.AttentionLayer(truth.theta[:2], truth.w[:2])
    axes = headlens.plot.heads(part, truth)
    assert axes[0, 2].get_title() == "truth 2\nnot found" and not axes[0, 2].images and axes[1, 2].images
    axes = headlens.plot.heads(truth, part)
    assert sum("no match" in ax.get_title() for ax in axes[0]) == 1
    assert headlens.plot.heads(part).shape == (2, 2)
    with pytest.raises(ValueError, match="truth: dim 5 and outputs 5, expected 6 and 6"):
        headlens.plot.heads(part, headlens.AttentionLayer.random(dim=5))


def test_many_heads_and_narrow_outputs():
    layer = headlens.AttentionLayer.random(heads=7, dim=5, outputs=2)
    assert headlens.plot.heads(layer, layer).shape == (4, 7)
    pyplot.gcf().draw_without_rendering()


def test_errors_and_their_bars(truth, recovery):
    ax = headlens.plot.error_bars(recovery, truth)
    bars = sorted(patch.get_height() for patch in ax.patches)
    heads = recovery.certificate.per_head
    assert bars == sorted([h["theta_error_bar"] for h in heads] + [h["w_error_bar"] for h in heads])
    matches = headlens.compare(recovery.layer, truth).matches
    at, errors = line(ax, r"$\Theta$, error")
    assert np.rint(at).tolist() == [m["a"] for m in matches]
    assert errors.tolist() == [m["theta_error"] for m in matches]
    low, high = ax.get_ylim()
    assert low < min([*bars, *errors]) and high > max([*bars, *errors])
    assert len(legend(headlens.plot.error_bars(recovery))) == 2


def test_trace_and_number_of_heads(recovery):
    c = recovery.certificate
    ax = headlens.plot.trace(c)
    drawn = sorted((x, y) for part in ax.get_lines() for x, y in zip(part.get_xdata(), part.get_ydata()))
    assert drawn == [(i, step["train_error"]) for i, step in enumerate(c.trace)]
    ax = headlens.plot.head_count(recovery)
    _, held_out = line(ax, "held out")
    assert held_out.tolist() == [t["held_out_error"] for t in c.head_count_evidence]
    tried = [int(text.get_text()) for text in ax.get_xticklabels()]
    at, _ = line(ax, "chosen")
    assert tried[at[0]] == c.heads == 3


@pytest.mark.filterwarnings("ignore::headlens.NumericalWarning")
def test_trace_of_gradient_descent(truth):
    X, Y = truth.examples(count=40, noise=0.1)
    found = headlens.recover(X, Y, 2, method="gradient", steps=400, starts=2)
    lines = headlens.plot.trace(found).get_lines()
    assert [part.get_xdata().tolist() for part in lines] == [[*range(0, 401, 2)]] * 2
    errors = [y for part in lines for y in part.get_ydata()]
    assert errors == [point["train_error"] for point in found.certificate.trace]


def test_the_whole_recovery(truth, recovery):
    assert len(recovery.plot()) == 3 + 2 * 3
    axes = recovery.plot(truth)
    assert len(axes) == 3 + 4 * 3 and len({ax.figure for ax in axes}) == 1
    figure = pyplot.figure(layout="constrained")
    assert recovery.plot(truth, figure=figure)[0].figure is figure
    figure.draw_without_rendering()


def test_a_recovery_without_a_layer(truth, failure):
    assert failure.layer is None
    axes = failure.plot(truth)
    assert len(axes) == 3 and failure.status in axes[2].texts[0].get_text()
    assert "chosen" not in legend(axes[0])
