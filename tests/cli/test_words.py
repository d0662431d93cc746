"""Words of the command line: whole numbers by one rule, and what was probably meant by a wrong word."""

import pytest
from binary import refuse, run, run_json

WHOLE = [
    "generate native --seed", "generate native --target-seed", "generate native --count",
    "generate native --dim", "generate native --keys", "generate native --threads",
    "generate power-mean --degree", "generate attention-layer --heads", "generate attention-layer --tokens",
    "generate attention-layer --outputs", "generate attention-layer --rank", "generate hard-parity --size",
    "generate hard-rounding --modulus", "generate hard-rounding --levels", "generate hard-rounding --weight",
    "fit x.npz --heads", "fit x.npz --head-rank", "kernel x.npz --head-rank",
    "fit x.npz --centres", "fit x.npz --block-sets", "fit x.npz --seed",
    "kernel x.npz --samples", "recover x.npz --heads", "recover x.npz --max-heads",
    "recover x.npz --starts", "study run x.toml --jobs",
]  # fmt: skip
WITHOUT_OUTPUT = ["theory native --dim", "theory native --keys", "theory native --samples", "info --threads",
                  "inspect x.npz --tokens", "inspect x.npz --samples", "inspect x.npz --fourier",
                  "inspect x.npz --restrict", "inspect x.npz --layer", "predict x y --seed"]  # fmt: skip


@pytest.mark.parametrize("line", WHOLE + WITHOUT_OUTPUT)
@pytest.mark.parametrize("number", ["18446744073709551616", "0x10", "1e3", "1.0", "99999999999999999999999"])
def test_what_is_no_whole_number_is_refused(tmp_path, line, number):
    output = f"-o {tmp_path}/out" if line in WHOLE else ""
    said = refuse(line, number, output, folder=tmp_path)
    assert number in said and "x.npz:" not in said, said


def test_ranges_are_said_where_they_help(tmp_path):
    out = f"-o {tmp_path}/out"
    assert "'x' given, expected a whole number, 1 or more (see" in refuse("generate native --dim x", out)
    said = refuse("generate native --dim 99999999999999999999", out)
    assert "expected at most 9223372036854775807" in said
    assert "expected a whole number, 0 or more" in refuse("generate native --seed -1", out)
    for line in ("fit x.npz -o y --heads", "theory native --heads"):
        for number in ("9223372036854775807", "1000000000001", "0"):
            assert "expected inf or a whole number from 1 to 1000000000000" in refuse(line, number)


def test_the_largest_seed(tmp_path):
    report = run_json("generate native --count 5 --seed 18446744073709551615 -o", tmp_path / "a.npz")
    assert report["seed"] == 2**64 - 1


def test_leading_zeros_are_decimal_everywhere(tmp_path):
    report = run_json(
        "generate native --seed 010 --target-seed 010 --count 010 --dim 010 --keys 010 -o", tmp_path / "a.npz"
    )
    assert {report[k] for k in ("seed", "target_seed", "n", "dim", "min_keys", "max_keys")} == {10}
    assert run_json("info --threads 010")["threads"] == 10
    assert run_json("theory native --samples 010,020")["samples"] == [10, 20]


def test_numbers_of_studies(tmp_path):
    """--set is TOML, which has one rule of its own: no leading zeros, nothing beyond 64 bits."""
    study = tmp_path / "s.toml"
    study.write_text('name = "s"\ncommand = "fit"\nseeds = [1]\n[grid]\nsamples = [20, 30]\n')
    for value in ("010", "18446744073709551616", "0x", "1.5"):
        said = refuse(
            "study run", study, f"--set grid.samples=[{value},30] -o", tmp_path / "r.db", folder=tmp_path
        )
        assert "samples" in said, said


@pytest.mark.parametrize("line, meant, helper", [
    ("fitt", "'fit'", "headlens --help"),
    ("genrate native", "'generate'", "headlens --help"),
    ("generate powermean -o x", "'power-mean'", "headlens generate --help"),
    ("generate", "", "headlens generate --help"),
    ("study exprot", "'export'", "headlens study --help"),
    ("fit x.npz --headz 5 -o x", "'--heads'", "headlens fit --help"),
    ("fit x.npz --heads=5 --outptu=x", "'--output'", "headlens fit --help"),
    ("fit x.npz -o x --model rfaa", "'rfa'", "headlens fit --help"),
    ("fit x.npz -o x --loss logstic", "'logistic'", "headlens fit --help"),
    ("fit x.npz -o x --solver daul", "'dual'", "headlens fit --help"),
    ("kernel x.npz -o x --score sofmax", "'softmax'", "headlens kernel --help"),
    ("generate native --matrix shfit -o x", "'shift'", "headlens generate native --help"),
    ("generate attention-layer --inputs gausian -o x", "'gaussian'", "headlens generate attention-layer"),
    ("recover x.npz -o x --method brute_force", "'brute-force'", "headlens recover --help"),
    ("recover x.npz -o x --start spectrl", "'spectral'", "headlens recover --help"),
    ("inspect x.npz --format torhc", "'torch'", "headlens inspect --help"),
    ("study export x.db --format jsn", "'json'", "headlens study export --help"),
    ("completion bahs", "'bash'", "headlens completion --help"),
    ("help generat", "'generate'", "headlens help"),
    ("help generate nativ", "'native'", "headlens help"),
    ("fit x.npz --seed -1 -o x", "", "headlens fit --help"),
])  # fmt: skip
def test_what_was_meant(tmp_path, line, meant, helper):
    said = refuse(line, folder=tmp_path)
    assert meant in said and helper in said, said
    assert ("did you mean" in said) == bool(meant)


def test_far_words_are_not_guessed(tmp_path):
    assert "did you mean" not in refuse("zebra", folder=tmp_path)
    assert "did you mean" not in refuse("fit x --zebra-crossing 3 -o y", folder=tmp_path)


@pytest.mark.parametrize("line", ["", "fit", "generate", "generate native", "study run"])
def test_help_command(line):
    assert run("help", line).stdout == run(line, "--help").stdout


def test_model_and_data_the_wrong_way_round(make_sets, tmp_path):
    data = make_sets().path
    run("fit", data, "--heads 4 -o", tmp_path / "m")
    for words in (
        ("predict", data, tmp_path / "m", "-o", tmp_path / "p"),
        ("evaluate", data, tmp_path / "m"),
    ):
        said = refuse(*words, folder=tmp_path)
        assert f"headlens {words[0]} MODEL DATA" in said and "holds sets" in said
