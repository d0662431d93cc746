"""Tensors and layers of other libraries. PyTorch and JAX are guests: without them their tests are skipped."""

import pathlib
import subprocess
import sys
import sysconfig

import headlens
import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent


def find_torch():
    """This Python, or that of Debian (python3-torch) if it can load the same extension."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, "/usr/bin/python3"):
        code = "import sys, torch; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return python
    return None


def test_torch():
    python = find_torch()
    if python is None:
        pytest.skip("PyTorch is not installed (scripts/setup bench brings Debian's)")
    # All but PyTorch comes from this Python: NumPy, scikit-learn, headlens.
    paths = [str(pathlib.Path(headlens.__file__).parents[1]), sysconfig.get_paths()["purelib"]]
    code = f"import sys; sys.path[:0] = {paths!r}; import runpy; runpy.run_path({str(HERE / 'torch_guest.py')!r})"
    done = subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "fine", done.stderr[-2000:]


def test_jax(tokens):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jax.config.update("jax_enable_x64", True)
    X, y = tokens
    model = headlens.RandomFeatureAttentionRegressor(heads=10, ridge=1e-3, random_state=0)
    expected = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(model.fit(jax.numpy.array(X), jax.numpy.array(y)).predict(X), expected)


def test_transformer_lens(rng):
    """q = x W_Q[h]: one matrix a head, tokens on the left."""
    heads, d, a = 3, 6, 2
    w = {f"blocks.0.attn.W_{n}": rng.standard_normal((heads, d, a)) for n in "QKV"}
    w["blocks.0.attn.W_O"] = rng.standard_normal((heads, a, d))
    layer = headlens.AttentionLayer.from_transformer_lens(w, prefix="blocks.0.attn.")
    q, k, v, o = (w[f"blocks.0.attn.W_{n}"] for n in "QKVO")
    for h in range(heads):
        np.testing.assert_allclose(layer.theta[h], q[h] @ k[h].T / np.sqrt(a), atol=1e-13)
        np.testing.assert_allclose(layer.w[h], v[h] @ o[h], atol=1e-13)
    with pytest.raises(ValueError, match="blocks.1.attn.W_Q is missing"):
        headlens.AttentionLayer.from_transformer_lens(w, prefix="blocks.1.attn.")
