"""The program as a citizen of a shell: help, JSON, completion, manual, interruption, full disks."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from binary import BINARY, command, fit, predict, run, run_json

TASKS = ["power-mean", "correlation", "native", "query-power", "mixture", "ordered"]
COMMANDS = [
    "generate",
    "fit",
    "kernel",
    "theory",
    "predict",
    "evaluate",
    "recover",
    "compare",
    "inspect",
    "study",
    "report",
    "info",
    "completion",
    "man",
]
LAYERS = ["attention-layer", "examples", "hard-parity", "hard-rounding"]
STUDY = ["run", "status", "export"]
ALL = [
    "",
    *COMMANDS,
    *(f"generate {task}" for task in [*TASKS, *LAYERS]),
    *(f"study {part}" for part in STUDY),
    *(f"theory {task}" for task in TASKS[:-2]),
]


@pytest.mark.parametrize("line", ALL)
def test_help_has_an_example(line):
    done = run(line, "--help")
    assert "Example" in done.stdout and done.stderr == ""
    example = [x.strip() for x in done.stdout.splitlines() if x.strip().startswith(("headlens ", "source "))]
    assert example and all(line in x for x in example[:1])


@pytest.mark.parametrize(
    "line",
    [f"generate {task}" for task in TASKS]
    + ["theory native", "fit", "kernel", "predict", "evaluate", "info"],
)
def test_common_options_are_everywhere(line):
    text = run(line, "--help").stdout
    assert all(option in text for option in ("--seed", "--threads", "--max-memory", "--json"))


def test_examples_of_the_help_run(tmp_path, make_sets):
    """All of them, with fewer heads and sets; labels, tokens, shift, layer and examples are the user's own."""
    make_sets(d=16, y=np.arange(20) % 2, name="labels")
    make_sets("sequence", name="tokens")
    np.save(tmp_path / "shift.npy", np.roll(np.eye(16), 1, axis=0))
    np.savez(tmp_path / "layer.npz", Theta=np.zeros((1, 2, 2)), W=np.ones((1, 2, 2)))
    np.savez(tmp_path / "examples.npz", X=np.ones((3, 2, 2)))
    count = 0
    for line in ALL:
        for example in run(line, "--help").stdout.splitlines():
            words = example.split()
            if (
                words[:1] == ["headlens"]
                and len(words) > 2
                and words[1] in ("generate", "fit", "kernel", "theory", "predict", "evaluate", "info")
            ):
                fewer = " ".join(words[1:]).replace("1000", "10").replace("500", "10")
                run(re.sub(r"--count \d+", "--count 200", fewer), cwd=tmp_path)
                count += 1
    assert count >= 15 and (tmp_path / "equivariant.hlm").exists() and (tmp_path / "scores.npy").exists()


def test_version():
    name, version = run("--version").stdout.split()
    assert name == "headlens" and version == run_json("info")["version"]


def test_info(tmp_path):
    free = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    info = run_json("info --threads 1 --max-memory 1G", env=free)
    assert info["threads"] == 1 and info["max_memory_bytes"] == 1 << 30
    assert info["simd"] in ("avx512", "avx2", "portable")
    assert info["blas_core_fits"] and info["blas_core"] and info["compiler"] and info["commit"]
    default = run_json("info")
    assert 0 < default["max_memory_bytes"] <= default["free_memory_bytes"]
    text = run("info", env=free).stdout
    assert info["blas_core"] in text and info["version"] in text


def test_json_of_every_command(make_sets, tmp_path):
    generated = run_json("generate power-mean --count 30 -o", tmp_path / "a.npz")
    assert generated["n"] == 30
    report = fit(make_sets().path, tmp_path / "m", "--heads 4")
    assert {"status", "ridge", "train_loss", "residual", "seconds", "predicted_peak_bytes"} <= report.keys()
    data = make_sets()
    predicted = run_json("predict", tmp_path / "m", data.path, "-o", tmp_path / "p.npy")
    assert predicted["shape"] == [20] and predicted["n"] == 20
    assert {"mse", "nmse", "n"} == run_json("evaluate", tmp_path / "m", data.path).keys()


def test_no_progress_bar_unless_a_terminal(make_sets, tmp_path):
    data = make_sets()
    done = run("fit", data.path, "--heads 4 -o", tmp_path / "m")
    assert done.stderr == "" and "\r" not in done.stdout and done.stdout.count("\n") <= 3


def test_completion_scripts_parse(tmp_path):
    bash = run("completion bash").stdout
    subprocess.run(["bash", "-n"], input=bash, text=True, check=True)
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n"], input=run("completion zsh").stdout, text=True, check=True)
    else:
        assert run("completion zsh").stdout.startswith("#compdef headlens\n")


@pytest.mark.parametrize(
    "line, expected",
    [
        ("headlens ", set(COMMANDS)),
        ("headlens generate ", {*TASKS, *LAYERS}),
        ("headlens study ", set(STUDY)),
        ("headlens study export --format ", {"csv", "json"}),
        ("headlens theory ", set(TASKS[:-1])),
        ("headlens theory native --model ", {"rfa", "mlp"}),
        ("headlens fit --sc", {"--score"}),
        ("headlens fit --score ", {"relu", "softmax", "exp", "step"}),
        ("headlens generate native --matrix s", {"shift"}),
        ("headlens fit --model ", {"rfa", "brfa", "mlp"}),
    ],
)
def test_bash_completes(line, expected):
    words = line.split(" ")
    script = (
        run("completion bash").stdout
        + f"""
COMP_WORDS=({" ".join(w or '""' for w in words)}); COMP_CWORD={len(words) - 1}
_headlens; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    )
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True)
    assert expected <= set(done.stdout.split()) and done.stderr == ""


def test_manual_page():
    page = run("man").stdout
    assert page.startswith(".TH HEADLENS 1") and all(f"headlens {c}" in page for c in COMMANDS)
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "error"], input=page, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def large_problem(tmp_path_factory):
    """A fit of ten seconds or more."""
    path = tmp_path_factory.mktemp("data") / "large.npz"
    run("generate power-mean --degree 2 --count 3000 --precision f32 --seed 1 -o", path)
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption(large_problem, tmp_path, number):
    model = tmp_path / "m"
    model.write_bytes(b"old")
    words = command("fit", large_problem, "--heads 1000 -o", model)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(1.0)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, out, err)
    assert len(err.splitlines()) == 1 and out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["m"] and model.read_bytes() == b"old"


def test_standard_output_that_is_full(make_sets, tmp_path):
    with open("/dev/full", "w") as full:
        for line in ("info", "info --json", "man", "completion bash", "--help", "--version"):
            done = subprocess.run(command(line), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, line


def test_closed_pipe_ends_quietly():
    done = subprocess.run(f"'{BINARY}' man | head -1", shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == "" and done.stdout.startswith(".TH")


def test_killed_runs_leave_no_half_file(make_sets, tmp_path):
    """SIGKILL cannot be caught: a temporary file may stay, the old model must."""
    data = make_sets(n=50, d=16)
    model = tmp_path / "models" / "m"
    model.parent.mkdir()
    fit(data.path, model, "--heads 1")
    old = model.read_bytes()
    for wait in (0.05, 0.1, 0.2, 0.3):
        words = command("fit", data.path, "--heads 40000 --precision f32 --ridge 1 -o", model)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(wait)
            process.kill()
        if process.returncode == -signal.SIGKILL:
            assert model.read_bytes() == old


def test_runs_from_anywhere_with_odd_paths(make_sets, tmp_path):
    folder = tmp_path / "with space and ünïcode"
    folder.mkdir()
    shutil.copy(make_sets().path, folder / "data.npz")
    fit(folder / "data.npz", folder / "m", "--heads 3")
    assert predict(folder / "m", folder / "data.npz").shape == (20,)


def test_locale_does_not_matter(make_sets, tmp_path):
    data = make_sets()
    environment = os.environ | {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    fit(data.path, tmp_path / "a", "--heads 3 --ridge 0.5")
    fit(data.path, tmp_path / "b", "--heads 3 --ridge 0.5", env=environment)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_notes_go_to_stderr_and_json_stays_valid(make_sets, tmp_path):
    data = make_sets(n=1200, d=4)
    done = run("fit", data.path, "--heads 320 --ridge 1 --max-memory 25M --json -o", tmp_path / "m")
    assert json.loads(done.stdout)["status"] == "solved"
    assert all(line.startswith("headlens: note: ") for line in done.stderr.splitlines())
