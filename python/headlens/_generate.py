"""Synthetic sets with a known target."""

from typing import Any

import numpy as np

from . import _core
from ._call import fill, settings, whole_number
from ._sets import Sets


def task_options(task: str, keys: int | tuple[int, int], **values: Any) -> _core.TaskOptions:
    low, high = keys if isinstance(keys, tuple | list) else (keys, keys)
    return fill(_core.TaskOptions(), task=task, min_keys=low, max_keys=high, **values)


def generate(
    task: str,
    *,
    dim: int = 16,
    keys: int | tuple[int, int] = 16,
    count: int = 1024,
    degree: int = 1,
    pure: bool = False,
    matrix: str = "identity",
    weight: float = 0.5,
    noise: float = 0.0,
    seed: int = 0,
    target_seed: int = 0,
    precision: str = "f64",
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> tuple[Any, np.ndarray]:
    """Sets of unit tokens and their targets, the same numbers as `headlens generate`.

    Parameters
    ----------
    task : "power-mean", "correlation", "native", "query-power", "mixture" or "ordered"
    dim : coordinates of a token
    keys : of a set; a pair (low, high) for ragged sets
    count : number of sets
    degree : the power p
    pure : leave out the share of the target that depends on one token alone
    matrix : S: "identity", "shift" (of the coordinates) or "random" (orthogonal)
    weight : g: 0 is the identity alone, 1 the shift alone
    noise : standard deviation of Gaussian noise on y
    seed, target_seed : of tokens, sizes and noise; of the target, equal for training and test sets
    precision : "f32" or "f64", of the tokens

    Returns
    -------
    X : array (count, 1 + keys, dim), query first; `Sets` if they are ragged
    y : array (count,)

    >>> import headlens
    >>> X, y = headlens.generate("correlation", dim=3, keys=4, count=10, seed=1)
    >>> X.shape, y.shape
    ((10, 5, 3), (10,))
    >>> headlens.generate("power-mean", dim=3, keys=(2, 6), count=10)[0]
    Sets of 10 (2 to 6 keys, d = 3, float64)
    """
    options = task_options(
        task,
        keys,
        dim=dim,
        count=count,
        degree=degree,
        pure=pure,
        matrix=matrix,
        weight=weight,
        noise=noise,
        seed=whole_number(seed),
        target_seed=whole_number(target_seed, "target_seed"),
        precision=precision,
    )
    with settings(threads, max_memory) as how:
        query, all_keys, offsets, y = _core.generate(options, how)
    if offsets is not None:
        return Sets(query, all_keys, offsets), y
    return np.concatenate([query[:, None], all_keys], axis=1), y
