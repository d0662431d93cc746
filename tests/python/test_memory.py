"""No copy of X on the way in: peak memory of calls, as the kernel counts it."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np, headlens

def status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))

def peak(call):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark starts anew
    before = status("VmRSS")
    call()
    return status("VmHWM") - before

n, tokens, d = 4000, 129, 16
X, y = np.empty((n, tokens, d), dtype=sys.argv[2]), np.arange(n) % 7.0
rng = np.random.default_rng(0)
for i in range(n):
    X[i] = rng.standard_normal((tokens, d))
model = headlens.RandomFeatureAttentionRegressor(heads=4, ridge=1e-3, random_state=0, threads=2)
model.fit(X[:100], y[:100]).predict(X[:100])
if sys.argv[1] == "sets":
    query, keys = np.ascontiguousarray(X[:, 0]), np.ascontiguousarray(X[:, 1:])
    del X
    X = headlens.Sets(query, keys)
    size = query.nbytes + keys.nbytes
else:
    X.flags.writeable = False
    size = X.nbytes
call = {
    "predict": lambda: model.predict(X),
    "transform": lambda: model.transform(X),
    "fit of a copy": lambda: model.fit(X.copy(), y),
}
print(peak(call.get(sys.argv[1], lambda: model.fit(X, y))) / size)
"""


def added_share(what, dtype):
    words = [sys.executable, "-c", PROGRAM, what, dtype]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("what", ["fit", "predict", "transform", "sets"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_x_is_not_copied(what, dtype):
    """66 MB of X (half in single precision) against features of some 9 MB: a copy would count as 1."""
    assert added_share(what, dtype) < 0.5


def test_a_copy_would_be_seen():
    assert added_share("fit of a copy", "float64") > 0.9
