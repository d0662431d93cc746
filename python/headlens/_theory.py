"""What theory says about a target before any data are drawn."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from . import _core
from ._call import fill, settings
from ._generate import task_options


@dataclass(frozen=True, eq=False)
class Theory:
    """Complexity of a target, and what follows for each number of training sets."""

    complexity: float
    """The squared norm of the target in the space of the kernel."""
    variance: float
    """Of y, noise included."""
    samples: np.ndarray
    bound: np.ndarray
    """sqrt(complexity / samples), in the units of y."""
    predicted_error: np.ndarray
    """Error on fresh sets over the variance of y; nan if y is constant."""
    ridge: np.ndarray
    """The penalty at which it is reached."""

    def __repr__(self) -> str:
        lines = [f"complexity {self.complexity:.4g}, variance {self.variance:.4g}"]
        lines.append(f"{'samples':>12}  {'bound':>10}  {'predicted error':>15}")
        for n, bound, error in zip(self.samples, self.bound, self.predicted_error):
            lines.append(f"{n:>12}  {bound:>10.4g}  {error:>15.4g}")
        return "\n".join(lines)


def theory(
    task: str,
    *,
    dim: int = 16,
    keys: int = 16,
    degree: int = 1,
    pure: bool = False,
    noise: float = 0.0,
    model: str = "rfa",
    samples: int | Iterable[int] = (64, 256, 1024, 4096, 16384, 65536),
    max_memory: int | str | None = None,
) -> Theory:
    """Complexity, risk bound and predicted learning curve of a target, for infinitely many heads.

    `task` and its options as for `generate`; `model` is "rfa" or "mlp".

    >>> import headlens
    >>> headlens.theory("power-mean", degree=2, dim=4, keys=4, samples=[64, 1024])
    complexity 9.361, variance 0.01562
         samples       bound  predicted error
              64      0.3824           0.1681
            1024     0.09561        3.433e-06
    """
    numbers = list(samples) if isinstance(samples, Iterable) else [samples]
    options = _core.TheoryOptions()
    options.task = task_options(task, keys, dim=dim, degree=degree, pure=pure, noise=noise)
    fill(options, model=model, samples=[int(n) for n in numbers])
    with settings(None, max_memory) as how:
        found = _core.theory(options, how)
    arrays = {k: np.array(found[k], dtype=float) for k in ("bound", "predicted_error", "ridge")}
    return Theory(found["complexity"], found["variance"], np.array(found["samples"]), **arrays)
