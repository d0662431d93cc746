"""How calls run: Ctrl-C, threads, the interpreter released, memory, notes, progress, warnings."""

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import headlens
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError


def run_python(code, **options):
    words = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize(
    "call",
    [
        "headlens.recover(*headlens.AttentionLayer.random(heads=6, dim=24).examples(300, noise=0.1))",
        "headlens.RandomFeatureAttentionRegressor(heads=600).fit(rng.normal(size=(6000, 9, 16)), rng.normal(size=6000))",
        "headlens.attention_kernel(rng.normal(size=(4000, 33, 16)), model='brfa', exact=True)",
    ],
    ids=["recover", "fit", "kernel"],
)
def test_ctrl_c_ends_a_call(call):
    """The signal arrives 0.3 s into a call of many seconds."""
    done = run_python(
        f"""
        import os, signal, threading, time
        import headlens, numpy as np
        headlens.RandomFeatureAttentionRegressor
        rng = np.random.default_rng(0)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - start)
        """
    )
    word, seconds = done.stdout.split()
    assert word == "interrupted" and float(seconds) < 10, done.stderr


def test_an_exception_of_a_signal_handler_ends_a_call():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    layer = headlens.AttentionLayer.random(heads=6, dim=24)
    X, Y = layer.examples(300, noise=0.1)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            headlens.recover(X, Y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_of_python_go_on(rng):
    X, y = rng.standard_normal((3000, 9, 16)), rng.standard_normal(3000)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    watcher = threading.Thread(target=tick)
    watcher.start()
    start = time.monotonic()
    headlens.RandomFeatureAttentionRegressor(heads=200, random_state=0).fit(X, y)
    stop = time.monotonic()
    done.set()
    watcher.join()
    # Every 5 ms of a second or more. Holding the interpreter, the call would leave none within its time.
    assert sum(start < t < stop for t in ticks) > 20


def test_calls_from_several_threads_at_once(tokens):
    X, y = tokens
    expected = headlens.RandomFeatureAttentionRegressor(heads=30, random_state=0).fit(X, y).predict(X)
    results = []

    def work():
        model = headlens.RandomFeatureAttentionRegressor(heads=30, random_state=0, threads=1).fit(X, y)
        results.append(model.predict(X))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all((r == expected).all() for r in results)


def worker_threads():
    with headlens._call.settings() as how:
        return how.threads


def test_workers_of_joblib_share_the_cores():
    joblib = pytest.importorskip("joblib")
    jobs = 2
    each = joblib.Parallel(n_jobs=jobs)(joblib.delayed(worker_threads)() for _ in range(3))
    assert set(each) == {max(1, joblib.cpu_count() // jobs)}


def test_threads_never_change_a_result(tokens, monkeypatch):
    X, y = tokens

    def predicted(**options):
        return (
            headlens.RandomFeatureAttentionRegressor(heads=50, random_state=0, **options).fit(X, y).predict(X)
        )

    np.testing.assert_array_equal(predicted(threads=1), predicted(threads=3))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    np.testing.assert_array_equal(predicted(), predicted(threads=3))


def test_too_little_memory(tokens):
    with pytest.raises(MemoryError, match="may be used .max_memory"):
        headlens.RandomFeatureAttentionRegressor(heads=50, max_memory="10K").fit(*tokens)


def test_files_that_cannot_be_read_or_written(tokens, tmp_path):
    with pytest.raises(OSError, match="absent"):
        headlens.load(tmp_path / "absent.hlm")
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ValueError, match="text"):
        headlens.load(tmp_path / "text")
    model = headlens.AttentionKernelRidge().fit(*tokens)
    with pytest.raises(OSError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "model.hlm")


def test_notes_go_to_the_log(caplog):
    rng = np.random.default_rng(0)
    state = {
        "in_proj_weight": rng.normal(size=(12, 4)),
        "out_proj.weight": rng.normal(size=(4, 4)),
        "in_proj_bias": np.ones(12),
    }
    with caplog.at_level(logging.INFO, logger="headlens"):
        headlens.AttentionLayer.from_weights(state, heads=2)
    assert "in_proj_bias" in caplog.text


@pytest.fixture
def singular(rng):
    """Every set twice: the Gram matrix is singular, and a penalty below its rounding does not help."""
    return np.repeat(rng.standard_normal((20, 4, 3)), 2, axis=0), rng.standard_normal(40)


def fit_singular(singular, solver):
    return headlens.RandomFeatureAttentionRegressor(heads=50, ridge=1e-25, solver=solver, random_state=0).fit(
        *singular
    )


def test_a_solver_that_stalls_is_a_warning(singular):
    with pytest.warns(headlens.NumericalWarning, match="stalled") as caught:
        model = fit_singular(singular, "iterative")
    assert caught[0].filename == __file__
    assert model.report_["status"] == "stalled" and np.isfinite(model.predict(singular[0])).all()


def test_without_a_model_there_are_no_predictions(singular, tmp_path):
    with pytest.warns(headlens.NumericalWarning, match="no model: the ridge 1e-25"):
        model = fit_singular(singular, "dual")
    assert model.report_["status"] == "not_positive_definite"
    for use in (model.predict, model.transform, lambda _: model.save(tmp_path / "m")):
        with pytest.raises(NotFittedError):
            use(singular[0])
    assert not (tmp_path / "m").exists()


def test_a_full_result_warns_of_nothing(tokens):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        headlens.RandomFeatureAttentionRegressor(heads=20, random_state=0).fit(*tokens)


class Bar:
    """What tqdm would be asked to draw."""

    made = []

    def __init__(self, **options):
        self.n, self.options, self.drawn, self.closed = 0.0, options, [], False
        Bar.made.append(self)

    def set_description_str(self, text, refresh):
        self.text = text

    def refresh(self):
        self.drawn.append((self.text, self.n))

    def close(self):
        self.closed = True


@pytest.fixture
def bars(monkeypatch):
    tqdm = pytest.importorskip("tqdm.auto")
    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(headlens._call._Bar, "DELAY", 0.0)
    Bar.made = []
    return Bar.made


def test_progress(bars, rng):
    X, Y = headlens.AttentionLayer.random(heads=3, dim=12).examples(200)
    headlens.recover(X, Y)  # standard error is no terminal here
    headlens.recover(X, Y, progress=False)
    assert not bars
    headlens.recover(X, Y, progress=True)
    (bar,) = bars
    assert bar.closed and bar.drawn and all(text and 0 <= n <= 100 for text, n in bar.drawn)
    model = headlens.RandomFeatureAttentionRegressor(heads=20, verbose=True)
    model.fit(rng.standard_normal((50, 3, 2)), rng.standard_normal(50))
    assert len(bars) == 2 and bars[1].drawn[0][0] == "features"


def test_progress_in_a_notebook_without_widgets(monkeypatch):
    """tqdm.auto would warn about ipywidgets; the bar is text then."""
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(headlens._call, "_in_notebook", lambda: True)
    monkeypatch.setattr(headlens._call.importlib.util, "find_spec", lambda name: None)
    assert headlens._call._progress_bar(None)._tqdm is tqdm.std.tqdm


def test_progress_on_a_terminal(bars, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    X, Y = headlens.AttentionLayer.random(heads=3, dim=12).examples(200)
    headlens.recover(X, Y)
    assert len(bars) == 1
    headlens.recover(X, Y, progress=False)
    monkeypatch.setattr(headlens._call._Bar, "DELAY", 60.0)
    headlens.recover(X, Y)  # over before a bar would appear
    assert len(bars) == 1


def test_an_error_of_the_progress_bar_is_raised(bars, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(Bar, "refresh", broken)
    X, Y = headlens.AttentionLayer.random(heads=6, dim=24).examples(300, noise=0.1)
    with pytest.raises(ZeroDivisionError):
        headlens.recover(X, Y, progress=True)
    assert bars[0].closed


def test_without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    X, Y = headlens.AttentionLayer.random(heads=1, dim=3).examples(40)
    assert headlens.recover(X, Y).status == "recovered"
    with pytest.raises(ImportError, match="progress: needs tqdm"):
        headlens.recover(X, Y, progress=True)


def test_a_forked_child_can_fit(tokens):
    """As multiprocessing does it; the threads of a call do not outlive it."""
    X, y = tokens
    headlens.AttentionKernelRidge().fit(X, y)
    child = os.fork()
    if child == 0:
        try:
            headlens.AttentionKernelRidge().fit(X, y)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
