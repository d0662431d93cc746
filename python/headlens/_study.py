"""Studies: grids of fits and recoveries, run into one resumable file."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _core
from ._call import fill, settings, warn

PathLike = str | os.PathLike[str]


class Study:
    """A grid of fits or recoveries from a TOML file, as `headlens study`.

    Parameters
    ----------
    path : study file
    overrides : changes as in TOML, such as ``["grid.samples=[64,128]"]``

    >>> import headlens, tempfile
    >>> study = headlens.Study.from_text('''
    ... name = "tiny"
    ... command = "fit"
    ... seeds = [1, 2]
    ... [fixed]
    ... task = "power-mean"
    ... degree = 1
    ... dim = 3
    ... keys = 4
    ... heads = 10
    ... test-samples = 50
    ... [grid]
    ... samples = [16, 32]
    ... ''')
    >>> store = tempfile.mkdtemp() + "/results.db"
    >>> study.run(store)["ran"]
    4
    >>> study.status(store)
    {'done': 4, 'failed': 0, 'running': 0, 'missing': 0}
    >>> sorted(row["samples"] for row in study.results(store))
    [16, 16, 32, 32]
    """

    def __init__(self, path: PathLike, overrides: Sequence[str] = ()):
        self._study = _core.read_study(Path(path), list(overrides))

    @classmethod
    def from_text(cls, text: str, overrides: Sequence[str] = ()) -> "Study":
        """From TOML in a string."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "study.toml"
            file.write_text(text)
            try:
                return cls(file, overrides)
            except ValueError as error:  # lines count, the file is nobody's
                raise ValueError(str(error).replace(str(file), "study")) from None

    @property
    def name(self) -> str:
        return self._study.name

    @property
    def title(self) -> str:
        return self._study.title

    @property
    def question(self) -> str:
        return self._study.question

    @property
    def source(self) -> str:
        """The file, word for word, overrides applied."""
        return self._study.source

    def run(
        self,
        store: PathLike,
        *,
        jobs: int = 0,
        shard: str = "",
        retry_failed: bool = False,
        threads: int | None = None,
        max_memory: int | str | None = None,
        backend: str = "auto",
        progress: bool | None = None,
    ) -> dict[str, Any]:
        """Runs the cells that `store` does not have yet. Whatever ends it, it goes on from there.

        jobs : cells at a time; 0: one per thread
        shard : "2/8": the second of eight disjoint parts of the cells; `Study.merge` joins the stores

        Returns the numbers of cells: cells, already_done, ran, failed, elsewhere; and seconds. Warns if cells
        failed.
        """
        line = f"headlens.Study({self.name!r}).run({os.fspath(store)!r})"
        options = fill(
            _core.RunOptions(), jobs=jobs, shard=shard, retry_failed=retry_failed, command_line=line
        )
        with settings(threads, max_memory, progress, backend) as how:
            summary = self._study.run(Path(store), options, how)
        if summary["failed"]:
            warn(f"{summary['failed']} of {summary['cells']} cells failed: results() says why in 'error'")
        return summary

    @staticmethod
    def merge(stores: Sequence[PathLike], merged: PathLike) -> dict[str, int]:
        """Adds the finished cells of several stores to `merged`, as `headlens study merge`. Again is no change.

        Returns the numbers of cells: cells, added, failed. Different values for one cell, times aside, are an
        error, and then nothing is merged.
        """
        paths = [Path(store) for store in stores]
        line = f"headlens.Study.merge({[str(path) for path in paths]!r}, {os.fspath(merged)!r})"
        return _core.merge_studies(paths, Path(merged), line)

    def status(self, store: PathLike) -> dict[str, int]:
        """Numbers of cells: done, failed, running, missing."""
        return self._study.tally(Path(store))

    def results(self, store: PathLike) -> list[dict[str, Any]]:
        """One dict a cell, in the order of the grid; `pandas.DataFrame` takes them as they are.

        Options of the cell, its values on the axes of the study, seed, status, recorded quantities, error (""
        if there was none) and seconds. Variants with the name of an option, such as ``[variants.model]``, are
        called ``variants.model``.
        """
        cells = json.loads(self._study.table(Path(store), "json"))["cells"]
        hidden = {
            name
            for cell in cells
            for name, value in cell["axes"].items()
            if cell["inputs"].get(name, value) != value
        }
        return [
            {
                **cell["inputs"],
                **{
                    f"variants.{name}" if name in hidden else name: value
                    for name, value in cell["axes"].items()
                },
                **{name: cell[name] for name in ("seed", "status")},
                **cell["outputs"],
                **{name: cell[name] for name in ("error", "seconds")},
            }
            for cell in cells
        ]

    def export_csv(self, store: PathLike) -> str:
        """The table as `headlens study export` writes it."""
        return self._study.table(Path(store), "csv")

    def report(self, store: PathLike, folder: PathLike, *, progress: bool | None = None) -> dict[str, Any]:
        """Writes a page with figures to `folder` (needs gnuplot), as `headlens report`.

        Returns page (a path), figures, findings, cells, failed and missing.
        """
        with settings(progress=progress) as how:
            return self._study.report(Path(store), Path(folder), how)

    def __repr__(self) -> str:
        title = "" if self.title in ("", self.name) else f": {self.title}"
        return f"Study({self.name!r}{title})"
