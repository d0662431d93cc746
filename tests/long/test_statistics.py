"""Statistical tests of tests/cli and tests/python with all their draws, and the notebooks that take half a minute."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cli"), str(TESTS / "python")]

import test_automatic  # noqa: E402
import test_notebooks  # noqa: E402
import test_variants  # noqa: E402

executed = test_notebooks.executed


def test_intervals_of_automatic_models_cover_fresh_targets():
    test_automatic.test_intervals_cover_fresh_targets(tasks=20)


def test_probabilities_of_automatic_models_are_calibrated():
    test_automatic.test_probabilities_are_calibrated(tasks=12)


def test_bars_of_layers_with_masks_and_biases_cover(tmp_path):
    test_variants.test_noise_is_approximate_and_bars_cover(tmp_path, seeds=6, least=19)


def test_heads_in_a_notebook(executed):
    test_notebooks.four_heads_are_recovered(executed)


def test_musk1_in_a_notebook(executed):
    test_notebooks.musks_are_told_apart(executed)
