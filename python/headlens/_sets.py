"""Sets: one query and any number of keys each."""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_array, as_numpy
from ._device import borrowed, dtype_of, is_on_cuda


class Sets:
    """Sets of one query and any number of keys, which slice and index like an array.

    Parameters
    ----------
    query : array (n, d)
    keys : array (n, N, d), or (total, d) with `offsets`
    offsets : integers (n + 1,), optional
        Set i owns ``keys[offsets[i]:offsets[i + 1]]``.

    An integer index gives one set as an array (1 + N, d), query first; slices, masks and arrays of integers
    give `Sets`. Tensors on a device of CUDA are kept as they are, and copied to main memory when somebody first
    reads them there; until then, or until the CUDA back end reads them, shapes are checked and values are not.

    >>> import numpy as np, headlens
    >>> sets = headlens.Sets(np.zeros((2, 3)), np.ones((5, 3)), offsets=[0, 1, 5])
    >>> len(sets), sets.shape, sets.sizes.tolist()
    (2, (2,), [1, 4])
    >>> sets[1].shape
    (5, 3)
    >>> sets[[1, 0, 1]]
    Sets of 3 (1 to 4 keys, d = 3, float64)
    """

    def __init__(self, query: Any, keys: Any, offsets: Any = None):
        self._given = (query, keys)  # as long as nobody reads them in main memory, all there is
        self.offsets = None if offsets is None else _as_offsets(offsets)
        if self._are_on_cuda():
            _check_shapes(*(tuple(part.shape) for part in self._given), self.offsets)
        else:
            self._given = (self.query, self.keys)
            self._checked  # noqa: B018 (shapes and values, now)

    @classmethod
    def from_list(cls, tokens: Sequence[Any], name: str = "X") -> "Sets":
        """From one array (1 + N, d) a set, query first.

        >>> import numpy as np, headlens
        >>> headlens.Sets.from_list([np.ones((2, 3)), np.ones((4, 3))]).sizes.tolist()
        [1, 3]
        """
        arrays = [as_array(part, f"{name}[{i}]") for i, part in enumerate(tokens)]
        if not arrays:
            raise ValueError(f"{name}: an empty list given, expected at least one set")
        for i, part in enumerate(arrays):
            width = arrays[0].shape[-1] if arrays[0].ndim == 2 else "d"
            if part.ndim != 2 or part.shape[0] < 2 or part.shape[1] != width:
                raise ValueError(
                    f"{name}[{i}]: shape {part.shape}, expected (1 + N, {width}): the query, then its keys"
                )
        sizes = [len(part) - 1 for part in arrays]
        query, keys = np.stack([part[0] for part in arrays]), np.concatenate([part[1:] for part in arrays])
        if min(sizes) == max(sizes):
            return cls(query, keys.reshape(len(arrays), sizes[0], -1))
        return cls(query, keys, np.concatenate([[0], np.cumsum(sizes)]))

    def _are_on_cuda(self) -> bool:
        """Whether both tensors lie on a device of CUDA."""
        return all(is_on_cuda(part) for part in self._given)

    @functools.cached_property
    def query(self) -> np.ndarray:
        return as_array(self._given[0], "query")

    @functools.cached_property
    def keys(self) -> np.ndarray:
        return as_array(self._given[1], "keys")

    @functools.cached_property
    def _checked(self) -> _core.Sets:
        """In main memory, with shapes and values checked."""
        return self._make(self.query, self.keys)

    def _lent(self) -> _core.Sets:
        """On the device, where the CUDA back end reads them; shapes and values are checked."""
        return self._make(
            *(borrowed(part, f"Sets: {name}") for part, name in zip(self._given, ("query", "keys")))
        )

    def _make(self, query: Any, keys: Any) -> _core.Sets:
        if self.offsets is None:
            return _core.Sets.from_arrays(query, keys, "Sets")
        return _core.Sets.from_ragged(query, keys, self.offsets.tolist(), "Sets")

    def __len__(self) -> int:
        return self._given[0].shape[0]

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    @property
    def ndim(self) -> int:
        return 1

    @property
    def dim(self) -> int:
        """Coordinates of a token, d."""
        return self._given[0].shape[1]

    @property
    def dtype(self) -> np.dtype:
        """float32 if queries and keys are, else float64."""
        return np.result_type(*(dtype_of(part) for part in self._given))

    @property
    def sizes(self) -> np.ndarray:
        """Number of keys of each set."""
        if self.offsets is None:
            return np.full(len(self), self._given[1].shape[1], dtype=np.int64)
        return np.diff(self.offsets)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):  # as arrays take it: sets[rows, ...]
            if len(index) == 0 or any(part is not Ellipsis for part in index[1:]):
                raise IndexError(f"Sets: {index} given, expected one index")
            index = index[0]
        if index is Ellipsis:
            return self
        if not isinstance(index, slice) and np.ndim(index) == 0:
            return self._one(operator.index(index))
        rows = self._rows(index)
        if self.offsets is None:
            return Sets(self.query[rows], self.keys[rows])
        begins, sizes = self.offsets[:-1][rows], self.sizes[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        chosen = np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Sets(self.query[rows], self.keys[chosen], offsets)

    def _one(self, index: int) -> np.ndarray:
        if not -len(self) <= index < len(self):
            raise IndexError(f"Sets: index {index} is out of range for {len(self)} sets")
        index %= len(self)
        keys = (
            self.keys[index] if self.offsets is None else self.keys[slice(*self.offsets[index : index + 2])]
        )
        return np.concatenate([self.query[index : index + 1], keys])

    def _rows(self, index: Any) -> np.ndarray:
        if isinstance(index, slice):
            return np.arange(len(self))[index]
        rows = np.asarray(index)
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iub":
            raise IndexError(
                f"Sets: an index of {rows.dtype} {rows.shape} given, expected integers or a mask"
            )
        return np.arange(len(self))[rows]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self._one(i) for i in range(len(self)))

    def __repr__(self) -> str:
        low, high = int(self.sizes.min()), int(self.sizes.max())
        sizes = f"{low} keys" if low == high else f"{low} to {high} keys"
        return f"Sets of {len(self)} ({sizes}, d = {self.dim}, {self.dtype})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Sets, (self.query, self.keys, self.offsets))


def _as_offsets(offsets: Any) -> np.ndarray:
    array = as_numpy(offsets, "offsets")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"offsets: {array.dtype} {array.shape} given, expected integers (n + 1,)")
    return array.astype(np.int64)


def _check_shapes(query: tuple[int, ...], keys: tuple[int, ...], offsets: np.ndarray | None) -> None:
    """Says of tensors on a device what the library says of arrays: it reads these later, if ever."""

    def require(holds: Any, text: str) -> None:
        if not holds:
            raise ValueError(f"Sets: {text}")

    require(len(query) == 2, f"query has shape {query}, expected (n, d)")
    require(query[0] > 0, f"there are no sets (query has shape {query})")
    require(query[1] > 0, f"tokens have no coordinates (query has shape {query})")
    if offsets is None:
        count, dim = query
        require(len(keys) == 3, f"keys has shape {keys}, expected (n, N, d), or (total, d) with offsets")
        require(
            (keys[0], keys[2]) == query,
            f"query has shape {query} but keys has shape {keys}, expected ({count}, N, {dim})",
        )
        require(keys[1] > 0, f"keys has shape {keys}, but every set needs at least one key")
        return
    require(len(keys) == 2, f"keys has shape {keys}, expected (total, d) beside offsets")
    require(keys[1] == query[1], f"queries have {query[1]} coordinates but keys have {keys[1]}")
    require(
        len(offsets) == query[0] + 1,
        f"offsets has {len(offsets)} entries, expected {query[0] + 1} for {query[0]} queries",
    )
    require(offsets[0] == 0, f"offsets[0] is {offsets[0]}, expected 0")
    empty = np.flatnonzero(np.diff(offsets) < 1)
    if len(empty) > 0:
        i = empty[0]
        text = f"offsets[{i}] is {offsets[i]} and offsets[{i + 1}] is {offsets[i + 1]}"
        raise ValueError(f"Sets: {text}, but every set needs at least one key")
    require(offsets[-1] == keys[0], f"offsets end at {offsets[-1]}, but keys has {keys[0]} rows")


def is_list_of_sets(values: Any) -> bool:
    """A list, or an array of objects, whose parts are arrays with two axes."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return False
    if not isinstance(values, list | tuple | np.ndarray) or len(values) == 0:
        return False
    return all(getattr(part, "ndim", None) == 2 for part in values)


def as_sets(values: Any, name: str = "X") -> tuple[_core.Sets, np.dtype]:
    """What the library reads, and the type that results go back in. No copy of arrays that are in C order.

    `values`: (n, 1 + N, d), query first; (n, d), one key each and a query of zeros; `Sets`; a list of arrays.
    """
    if is_list_of_sets(values):
        values = Sets.from_list(values, name)
    if isinstance(values, Sets):
        return values._checked, values.dtype
    array = as_array(values, name)
    if array.ndim == 1:
        raise ValueError(
            f"{name}: shape {array.shape}, expected (n, 1 + N, d). Reshape your data: {name}.reshape(1, -1) is "
            f"one sample, {name}.reshape(-1, 1) is one feature"
        )
    if array.ndim > 1 and array.shape[-1] == 0:
        raise ValueError(f"{name}: 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    if array.ndim == 2:
        n, dim = array.shape
        return _core.Sets.from_arrays(np.zeros_like(array), array.reshape(n, 1, dim), name), array.dtype
    if array.ndim != 3:
        raise ValueError(
            f"{name}: shape {array.shape}, expected (n, 1 + N, d) with the query first, or (n, d), Sets, or a "
            "list of arrays (1 + N, d)"
        )
    return _core.Sets.from_tokens(array, name), array.dtype


def as_sequences(values: Any, name: str = "X") -> tuple[_core.Sets, np.dtype]:
    """(n, L, d): every token in turn is the query, the others its keys."""
    array = as_array(values, name)
    return _core.Sets.from_sequence(array, name), array.dtype


def sets_on_cuda(values: Any, name: str = "X") -> tuple[_core.Sets, np.dtype] | None:
    """Tokens (n, 1 + N, d) and `Sets` as the CUDA back end reads them, if they lie on a device."""
    if isinstance(values, Sets):
        return (values._lent(), values.dtype) if values._are_on_cuda() else None
    return _on_cuda(values, name, _core.Sets.from_tokens)


def sequences_on_cuda(values: Any, name: str = "X") -> tuple[_core.Sets, np.dtype] | None:
    """The same for (n, L, d)."""
    return _on_cuda(values, name, _core.Sets.from_sequence)


def _on_cuda(values: Any, name: str, make: Callable[..., _core.Sets]) -> tuple[_core.Sets, np.dtype] | None:
    if not is_on_cuda(values) or len(getattr(values, "shape", ())) != 3:
        return None
    array = borrowed(values, name)
    return make(array, name), np.dtype(array.dtype)


def precision_of(precision: str, dtype: np.dtype) -> str:
    """auto: float32 in, float32 out."""
    if precision != "auto":
        return precision
    return "f32" if dtype == np.float32 else "f64"
