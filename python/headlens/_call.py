"""What every call shares: options by name, threads, memory, notes, progress and warnings."""

import contextlib
import importlib.util
import logging
import operator
import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, TypeVar

from . import _core

_logger = logging.getLogger("headlens")
_Options = TypeVar("_Options")


class NumericalWarning(UserWarning):
    """A numerical outcome that is no full result: a solver that stalled, a layer that was not identified."""


def warn(text: str) -> None:
    """A NumericalWarning at the first caller outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "headlens":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, NumericalWarning, stacklevel=level)


def fill(options: _Options, **values: Any) -> _Options:
    """Sets the options of a C++ struct; a value of the wrong type is an error that names the option."""
    for key, value in values.items():
        try:
            setattr(options, key, value)
        except TypeError:
            raise TypeError(
                f"{_core.spell(key)}: {value!r} given, a {type(value).__name__}, expected {_kind(options, key)}"
            ) from None
    return options


@contextlib.contextmanager
def named(**parameters: str) -> Iterator[None]:
    """Messages call these options by the names of these parameters: named(score="score_function")."""
    before = _core.rename_parameters(parameters)
    try:
        yield
    finally:
        _core.rename_parameters(before)


def head_count(heads: Any) -> Any:
    """A whole number, or "inf"."""
    if heads == "inf" or heads == float("inf"):
        return _core.INFINITE_HEADS
    if isinstance(heads, str):
        raise ValueError(f"heads: '{heads}' given, expected a whole number, 1 or more, or 'inf'")
    return heads


def _kind(options: object, key: str) -> str:
    """What an option takes, from the tables of the library."""
    row = _core.OPTIONS.get(type(options).__name__, {}).get(key, {"kind": "real", "nothing": ""})
    words = {
        "whole": "a whole number" + (", 0 or more" if "seed" in key else ""),
        "real": "a number",
        "word": f"a word such as {row.get('default')!r}",
        "flag": "True or False",
        "pair": "a pair of numbers",
        "list": "whole numbers",
        "matrix": "a matrix",
    }
    return words[row["kind"]] + (", or None" if row["nothing"] not in ("", "inf") else "")


def whole_number(value: Any, name: str = "seed") -> int:
    """A whole number from 0 to 2^64 - 1."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {value!r} given, expected a whole number, 0 or more") from None
    if not 0 <= number < 2**64:
        raise ValueError(f"{name}: {number} given, expected 0 to 2^64 - 1")
    return number


def _threads(threads: Any) -> int:
    """As given; else OMP_NUM_THREADS, which joblib sets in its workers; else 0, every core."""
    if threads is None:
        words = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        return int(words) if words.isdigit() else 0
    value = whole_number(threads, "threads")
    if not 1 <= value <= 4096:
        raise ValueError(f"threads: {value} given, expected 1 to 4096, or None for all cores")
    return value


def _bytes(max_memory: Any) -> int:
    if max_memory is None:
        return 0
    if isinstance(max_memory, str):
        try:
            return _core.parse_bytes(max_memory)
        except ValueError as error:
            raise ValueError(f"max_memory: {error}") from None
    value = whole_number(max_memory, "max_memory")
    if value < 1:
        raise ValueError(f"max_memory: {value} given, expected bytes, a size such as '8G', or None")
    return value


class _Bar:
    """One tqdm bar a call, with the phase before it. It leaves nothing behind, and short calls show none."""

    DELAY = 0.5  # seconds before it appears

    def __init__(self, tqdm: Any):
        self._tqdm, self._bar, self._start = tqdm, None, time.monotonic()

    def __call__(self, phase: str, done: float, total: float) -> None:
        if self._bar is None:
            if time.monotonic() - self._start < self.DELAY:
                return
            self._bar = self._tqdm(total=100, desc=phase, leave=False)
        # Nobody knows how long a search or an iteration takes: no share of it is shown.
        self._bar.bar_format = (
            "{desc} {percentage:3.0f}%|{bar}| {elapsed}" if total > 0 else "{desc} {elapsed}"
        )
        self._bar.n = 100 * min(1.0, done / total) if total > 0 else 0
        self._bar.set_description_str(phase, refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _progress_bar(progress: bool | None) -> _Bar | None:
    """None: where someone watches (a terminal, a notebook) and tqdm is installed."""
    watched = _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    if not (watched if progress is None else progress):
        return None
    try:
        if _in_notebook() and importlib.util.find_spec("ipywidgets") is None:
            from tqdm.std import tqdm  # tqdm.auto would warn that there are no widgets
        else:
            from tqdm.auto import tqdm
    except ImportError:
        if progress is None:
            return None
        raise ImportError("progress: needs tqdm (pip install tqdm)") from None
    return _Bar(tqdm)


@contextlib.contextmanager
def settings(
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: bool | None = False,
    backend: str = "auto",
) -> Iterator[_core.Settings]:
    """How a call runs. Notes of the library go to the logger `headlens`."""
    out = _core.Settings()
    out.threads, out.max_memory_bytes, out.log = _threads(threads), _bytes(max_memory), _logger.info
    out.backend = backend
    bar = _progress_bar(progress)
    out.progress = bar
    try:
        yield out
    finally:
        if bar is not None:
            bar.close()


def info() -> dict[str, Any]:
    """Version, compiler, BLAS core, SIMD level, threads, memory and back ends, as `headlens info`.

    >>> import headlens
    >>> [backend["name"] for backend in headlens.info()["backends"]]
    ['cpu', 'cuda']
    """
    with settings() as how:
        return _core.info(how)
