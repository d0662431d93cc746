"""What a file says, without what may differ between two honest runs: times, dates, versions, commits, hosts, the back end.

contents(path) maps names of parts to arrays or texts. Archives are read array by array, so dates in their headers and the order of
their entries do not count; models by tensor; a store of studies by row.
"""

import csv
import io
import json
import re
import sqlite3
import struct
import zipfile

import numpy as np

DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
FREE = re.compile(
    r"(.*[_-])?(seconds|version|commit|predicted_peak_bytes|free_memory_bytes|max_memory_bytes|host|finished|updated"
    r"|claim|checksum|threads)|(.*\.)?backends?"
)
TIME = re.compile(r"\b\d+(\.\d+)?(e-\d+)? (s|ms|min|h)\b")
# Lines of a report's page and of a printed certificate.
FREE_LINE = re.compile(
    r"^(<dt>(headlens|host|time in cells|largest cell|finished|back end)</dt>.*|back ?end\b.*)\n",
    re.MULTILINE,
)


def without_free(value):
    """A JSON value without the keys that may differ; of phases, the names are kept."""
    if isinstance(value, dict):
        kept = {
            name: item for name, item in value.items() if name == "format_version" or not FREE.fullmatch(name)
        }
        return {name: sorted(item) if name == "phases" else without_free(item) for name, item in kept.items()}
    return [without_free(item) for item in value] if isinstance(value, list) else value


def neutral_text(text):
    """Standard output, a page, a drawing or JSON as text that should be equal."""
    try:
        return json.dumps(without_free(json.loads(text)), indent=1)
    except ValueError:
        pass
    text = FREE_LINE.sub("", text)
    text = re.sub(r'(name="generator" content="[a-z ]*)[^"]*', r"\1", text)
    text = re.sub(r"( --threads \d+)|(\S*/(?=headlens ))", "", text)
    text = re.sub(r"(would need) [\d.]+ \w+", r"\1 BYTES", text)  # buffers of threads count
    text = re.sub(r"(Written by headlens [\d.]+) \(commit \w+\)", r"\1", text)
    return TIME.sub("TIME", text)


def neutral_csv(text):
    rows = list(csv.reader(io.StringIO(text)))
    kept = [i for i, name in enumerate(rows[0]) if not FREE.fullmatch(name)] if rows else []
    return "\n".join(",".join(row[i] for i in kept) for row in rows)


def of_npz(path):
    with zipfile.ZipFile(path) as archive:
        return {name: np.load(io.BytesIO(archive.read(name))) for name in archive.namelist()}


def of_model(path):
    blob = path.read_bytes()
    (size,) = struct.unpack("<Q", blob[:8])
    header, body = json.loads(blob[8 : 8 + size]), blob[8 + size :]
    parts = {"metadata": neutral_text(json.dumps(header.pop("__metadata__", {})))}
    for name, tensor in header.items():
        array = np.frombuffer(body[slice(*tensor["data_offsets"])], DTYPES[tensor["dtype"]])
        parts[name] = array.reshape(tensor["shape"])
    return parts


def of_store(path):
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    store.row_factory = sqlite3.Row
    parts = {}
    for table in ("study", "cell"):
        rows = [
            {k: row[k] for k in row.keys() if not FREE.fullmatch(k)}
            for row in store.execute(f"SELECT * FROM {table}")
        ]
        rows = [{k: neutral_text(v) if isinstance(v, str) else v for k, v in row.items()} for row in rows]
        parts[table] = json.dumps(sorted(rows, key=str), indent=1)
    store.close()
    return parts


def contents(path):
    kind = path.suffix
    if kind == ".npz":
        return of_npz(path)
    if kind == ".npy":
        return {"array": np.load(path)}
    if kind == ".hlm":
        return of_model(path)
    if kind == ".db":
        return of_store(path)
    if kind == ".csv":
        return {"table": neutral_csv(path.read_text())}
    if kind == ".pdf":
        return {"bytes": re.sub(rb"/CreationDate \(.*?\)", b"", path.read_bytes())}
    if kind == ".png":
        return {"bytes": path.read_bytes()}
    if path.name == ".headlens-report":  # its files with their checksums, which know the dates
        return {"names": re.sub(r"(?m)^[0-9a-f]{8} ", "", path.read_text())}
    return {"text": neutral_text(path.read_text())}
