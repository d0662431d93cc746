"""The machines of --backend: what `info` says of them, and what a command does without one."""

from binary import refuse, run, run_json


def cuda():
    processor, device = run_json("info")["backends"]
    assert processor["name"] == "cpu" and processor["available"]
    assert device["name"] == "cuda"
    return device


def test_info_says_what_is_there_or_why_not():
    entry = cuda()
    assert entry["reason"] and "\n" not in entry["reason"]
    assert entry["available"] or "ask for cpu" in entry["reason"]


def test_a_missing_device_is_one_line_with_a_remedy(make_sets, tmp_path):
    entry = cuda()
    words = [
        "fit",
        make_sets().path,
        "--heads 4 --ridge 0.1 --backend cuda",
        "-o",
        tmp_path / "m.safetensors",
    ]
    if entry["available"]:
        run(*words)
    else:
        line = refuse(*words, folder=tmp_path)
        assert "--backend: cuda given: " in line and entry["reason"] in line
