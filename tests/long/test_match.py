"""Copies of layers and unrelated layers, told apart in 200 of 200 cases; published weights where they are at hand.

HEADLENS_CHECKPOINT names a checkpoint of BERT's layout with layers of 12 heads (`encoder.layer.0.attention...`).
"""

import os
import sys
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
import heads_family as family
from binary import read_model, run_json

CHECKPOINT = os.environ.get("HEADLENS_CHECKPOINT")
CASES = 200


def check(tmp_path, report, layers, m, name):
    wrong = []
    for seed, kind in enumerate(islice(cycle(family.VERDICTS), CASES)):
        rng = np.random.default_rng(seed)
        wrong.append(family.judge_case(tmp_path, rng, layers(seed, rng), m, kind))
    report(f"match, {name}: {wrong.count('')} of {CASES} verdicts, pairs and changed heads right")
    assert [w for w in wrong if w] == []


def test_random_layers(tmp_path, report):
    check(tmp_path, report, lambda _, rng: family.random_layer(rng), 8, "random layers")


@pytest.mark.skipif(CHECKPOINT is None, reason="HEADLENS_CHECKPOINT names no checkpoint")
def test_published_layers(tmp_path, report):
    tensors, _ = read_model(CHECKPOINT)
    layers = [family.from_bert(tensors, f"encoder.layer.{i}.attention.") for i in (0, 1)]
    check(tmp_path, report, lambda seed, _: layers[seed // 7 % 2], 12, "published layers")
    words = (
        f"match {CHECKPOINT} {CHECKPOINT} --heads 12 --prefix-a encoder.layer.0 --prefix-b encoder.layer.1"
    )
    assert run_json(words)["verdict"] == "unrelated"


@pytest.mark.skipif(CHECKPOINT is None, reason="HEADLENS_CHECKPOINT names no checkpoint")
def test_halves_of_a_published_layer_are_unrelated(tmp_path, report):
    """Six heads of a layer against the six others: unrelated by construction, with all that heads of a layer share."""
    tensors, _ = read_model(CHECKPOINT)
    below = {0.01: 0, 0.05: 0, 0.2: 0}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        heads = family.heads_of(family.from_bert(tensors, f"encoder.layer.{seed % 2}.attention."), 12)
        order = rng.permutation(12)
        halves = []
        for part in (order[:6], order[6:]):
            half = family.layer_of({k: v[part] for k, v in heads.items()}, np.zeros(heads["dense"].shape[2]))
            halves.append(
                family.write_safetensors(tmp_path / f"{len(halves)}.safetensors", family.bert_names(half))
            )
        p = run_json("match", *halves, "--heads 6")["p_value"]
        below = {level: count + (p <= level) for level, count in below.items()}
    report(f"match, halves of published layers: {below} of 100 p-values at most at these levels")
    for level, count in below.items():  # three standard errors, as if the splits were independent
        assert count <= 100 * level + 3 * (100 * level * (1 - level)) ** 0.5
