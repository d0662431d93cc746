"""What theory says about a target before any data are drawn."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from . import _core
from ._call import fill, head_count, settings
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
    """On the mean excess risk of training over the norm ball, in the units of y; nan if the complexity is a lower bound."""
    predicted_error: np.ndarray
    """Error on fresh sets over the variance of y; nan if y is constant."""
    ridge: np.ndarray
    """The penalty at which it is reached."""
    square_bound: np.ndarray
    """The bound for the squared loss, in the squared units of y."""
    heads_needed: np.ndarray
    """Heads for the error that was given; nan if none was, or if no number of heads is enough."""
    complexity_is_lower_bound: bool
    """For brfa, where the computation of the complexity has not converged."""
    kernel_mean: float
    """E[K(x, x)]."""
    kernel_most: float
    """K(x, x) is at most this on unit tokens."""
    kernel_variance: float | None
    """Of the kernel of finitely many heads, mean over pairs of sets."""
    kernel_deviation: float | None
    """The square root of that variance over the root mean square of the kernel."""

    def __repr__(self) -> str:
        least = "at least " if self.complexity_is_lower_bound else ""
        lines = [f"complexity {least}{self.complexity:.4g}, variance {self.variance:.4g}"]
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
    heads: int | str = "inf",
    error: float | None = None,
    bias_scale: float | None = None,
    samples: int | Iterable[int] = (64, 256, 1024, 4096, 16384, 65536),
    max_memory: int | str | None = None,
) -> Theory:
    """Complexity, risk bound and predicted learning curve of a target.

    `task` and its options as for `generate`; `model` is "rfa", "brfa" (targets with the identity alone; `bias_scale`
    as for estimators) or "mlp". `heads` is a number for rfa, and "inf" else; with `error`, `heads_needed` are those
    of rfa for which the predicted error is at most that.

    >>> import headlens
    >>> headlens.theory("power-mean", degree=2, dim=4, keys=4, samples=[64, 1024])
    complexity 9.361, variance 0.01562
         samples       bound  predicted error
              64      0.5486           0.1681
            1024      0.1371        3.433e-06
    """
    numbers = list(samples) if isinstance(samples, Iterable) else [samples]
    options = _core.TheoryOptions()
    options.task = task_options(task, keys, dim=dim, degree=degree, pure=pure, noise=noise)
    fill(options, model=model, heads=head_count(heads), samples=[int(n) for n in numbers])
    fill(options, error=error, bias_scale=bias_scale)
    with settings(None, max_memory) as how:
        found = _core.theory(options, how)
    columns = ("bound", "predicted_error", "ridge", "square_bound", "heads_needed")
    arrays = {k: np.array(found.pop(k), dtype=float) for k in columns}
    return Theory(samples=np.array(found.pop("samples")), **arrays, **found)
