"""Kernels of infinitely many heads."""

from typing import Any

from . import _core
from ._arrays import as_mean
from ._call import fill, settings, whole_number
from ._sets import as_sequences, as_sets, precision_of


def attention_kernel(
    X: Any,
    Z: Any = None,
    *,
    model: str = "rfa",
    score: str = "relu",
    positions: str = "none",
    bias_scale: float | None = None,
    weight_scale: float | None = None,
    mean: Any = None,
    head_rank: int | None = None,
    precision: str = "auto",
    exact: bool = False,
    samples: int = 4096,
    sequence: bool = False,
    seed: int = 0,
    return_standard_error: bool = False,
    threads: int | None = None,
    max_memory: int | str | None = None,
    backend: str = "auto",
    progress: bool | None = None,
) -> Any:
    """K(x, z), the mean over infinitely many random heads of the products of their features.

    relu, step and exp have closed forms; softmax, and heads of a given rank, are estimated from `samples` random
    heads.

    Parameters
    ----------
    X, Z : sets, as for `fit`; without Z, the kernel of X with itself
    model : "rfa", "brfa" (identity mean) or "mlp" (no attention, equal set sizes)
    score : "relu", "softmax", "exp" or "step" (1 above 0)
    positions : "none", or "sinusoidal" encodings added to the keys
    bias_scale : scale b of the mean b * diag(1, .., 1, 0) of the heads (None: 0; brfa: 1)
    weight_scale : standard deviation of the random entries (None: 0.5; mlp: 1/sqrt(2(N+1)))
    mean : (d, d) or (d + 1, d + 1) matrix that takes the place of the identity in the mean of the heads
    head_rank : separate query and key matrices: the random part of a head has rank r (None: full)
    precision : "f32", "f64", or "auto": that of X
    exact : biased relu by Owen's T for every pair of keys: slower, 1e-14
    samples : heads that are drawn for softmax, and with head_rank
    sequence : X and Z are (n, L, d), every token in turn is the query
    backend : "auto", "cpu" or "cuda", the machine that computes (`headlens.info` lists them)
    return_standard_error : also return the root mean square error of the entries, None for closed forms

    Returns
    -------
    array (len(X), len(Z)), and the standard error if it is asked for

    >>> import headlens
    >>> X, _ = headlens.generate("power-mean", dim=3, keys=4, count=6)
    >>> K = headlens.attention_kernel(X, model="brfa")
    >>> K.shape, bool((K == K.T).all())
    ((6, 6), True)
    """
    read = as_sequences if sequence else as_sets
    left, dtype = read(X, "X")
    right = None if Z is None else read(Z, "Z")[0]
    options = _core.KernelOptions()
    options.features = fill(
        _core.FeatureOptions(),
        model=model,
        heads=samples,
        score=score,
        positions=positions,
        bias_scale=bias_scale,
        weight_scale=weight_scale,
        mean=as_mean(mean),
        head_rank=head_rank,
        precision=precision_of(precision, dtype),
        seed=whole_number(seed),
    )
    fill(options, exact=exact)
    with settings(threads, max_memory, progress, backend) as how:
        values, _, error = _core.attention_kernel(left, right, options, how)
    return (values, error) if return_standard_error else values
