"""headlens report: a folder with a page and figures, from stores that `headlens study run` wrote."""

import contextlib
import csv
import io
import os
import re
import shutil
import sqlite3
import stat
import xml.etree.ElementTree as xml

import pytest
from binary import ROOT, refuse, run, run_json
from test_study import checksum

STUDY = """
name = "tiny"
title = "Attention & <the> plain network"
question = "Who learns a power mean?"
command = "fit"
seeds = [1, 2, 3]
record = ["nmse", "chosen-ridge"]
[fixed]
task = "power-mean"
degree = 1
dim = 4
keys = 4
test-samples = 200
[grid]
samples = [16, 64, 256]
[variants.model]
"RFA's" = {model = "rfa", heads = 50}
"plain <b> `network`" = {model = "mlp", heads = 250}
[[figure]]
kind = "learning-curves"
title = "Error & more"
x = "samples"
y = "nmse"
series = "model"
[[figure]]
kind = "sample-table"
title = "Sets needed"
x = "samples"
quantity = "nmse"
series = "model"
[[finding]]
text = "Attention has the smaller error."
quantity = "nmse"
x = "samples"
better = {model = "RFA's"}
worse = {model = "plain <b> `network`"}
"""
RECOVERY = """
name = "layers"
command = "recover"
seeds = [1, 2]
record = ["success"]
[fixed]
dim = 3
tokens = 3
[grid]
heads = [1]
examples-per-unknown = [1.0, 4.0]
[[figure]]
kind = "phase-diagram"
title = "Share recovered"
x = "examples-per-unknown"
y = "heads"
quantity = "success"
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    for text in STUDY, RECOVERY:
        (folder / "study.toml").write_text(text)
        run("study run", folder / "study.toml", "-o", folder / "results.db")
    return folder / "results.db"


@pytest.fixture(scope="module")
def figures(store):
    out = store.parent / "report"
    return out, run_json("report", store, "-o", out)


def test_json_names_what_was_written(figures):
    out, report = figures
    assert report["page"] == str(out / "index.html")
    assert [f["name"] for f in report["figures"]] == [
        "tiny-1-learning-curves",
        "tiny-2-sample-sizes",
        "layers-1-phase-diagram",
    ]
    assert {p.name for p in out.iterdir()} == {"index.html", "figures", ".headlens-report"}
    names = {f"{f['name']}.{kind}" for f in report["figures"] for kind in ("svg", "pdf", "png", "csv")}
    assert {p.name for p in (out / "figures").iterdir()} == names
    assert (report["cells"], report["failed"], report["missing"]) == (22, 0, 0)
    (finding,) = report["findings"]
    assert finding["study"] == "tiny" and finding["holds"] == (finding["status"] == "holds")


def test_files_are_what_their_names_say(figures):
    out, _ = figures
    for path in (out / "figures").iterdir():
        start = path.read_bytes()[:8]
        if path.suffix == ".svg":
            assert xml.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        elif path.suffix != ".csv":
            assert start.startswith(b"%PDF-" if path.suffix == ".pdf" else b"\x89PNG\r\n\x1a\n")


def test_names_reach_the_figure_as_they_are(figures):
    out, _ = figures
    root = xml.parse(out / "figures" / "tiny-1-learning-curves.svg").getroot()
    texts = {"".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"RFA's", "plain <b> `network`", "16", "64", "256"} <= texts
    assert "Attention &amp; &lt;the&gt; plain network" in (out / "index.html").read_text()


def test_csv_agrees_with_the_export(store, figures):
    out, _ = figures
    with (out / "figures" / "tiny-1-learning-curves.csv").open() as file:
        curves = {(r["series"], int(r["samples"])): float(r["median"]) for r in csv.DictReader(file)}
    cells = {}
    for row in csv.DictReader(io.StringIO(run("study export", store, "--study tiny --format csv").stdout)):
        cells.setdefault((row["variants.model"], int(row["samples"])), []).append(float(row["nmse"]))
    assert curves == {key: sorted(values)[1] for key, values in cells.items()}


def test_same_store_same_page(store, figures, tmp_path):
    out, _ = figures
    run("report", store, "-o", tmp_path / "again")
    assert (out / "index.html").read_bytes() == (tmp_path / "again" / "index.html").read_bytes()


def test_several_stores_and_text(store, tmp_path):
    done = run("report", store, store, "-o", tmp_path / "out")
    assert "index.html: 6 figures, 2 findings from 44 cells" in done.stdout
    assert "Attention has the smaller error." in done.stdout and done.stderr == ""


def test_title_and_default_figure(tmp_path):
    """A study that asks for no figure gets the error against training sets, a line per model."""
    study = tmp_path / "study.toml"
    study.write_text(STUDY.split("[[figure]]")[0])
    run("study run", study, "-o", tmp_path / "r.db")
    report = run_json("report", tmp_path / "r.db", "-o", tmp_path / "out", "--title 'Mine & yours'")
    assert [f["title"] for f in report["figures"]] == ["Error (nmse) against training sets"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<h1>Mine &amp; yours</h1>" in page and "<text>training sets</text>" in page


def test_verdicts_are_sentences(store, tmp_path):
    (finding,) = run_json("report", store, "-o", tmp_path / "out")["findings"]
    plain = r"(Holds|Does not hold|Is not decided|Cannot be judged) .*[0-9]+ (numbers of )?training sets.* seeds\."
    assert re.search(plain, finding["verdict"]), finding["verdict"]
    assert "(nmse)" in finding["verdict"] and "sample size" not in finding["verdict"]


def test_unfinished_study(store, tmp_path):
    """Three cells are gone and one failed: said, and the rest is reported."""
    shutil.copy(store, tmp_path / "part.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "part.db")) as database, database:
        where = "key IN (SELECT key FROM cell WHERE command = 'fit' ORDER BY key LIMIT {})"
        database.execute("DELETE FROM cell WHERE " + where.format(3))
        database.execute("UPDATE cell SET status = 'failed', error = 'too <hot>' WHERE " + where.format(1))
        (row,) = database.execute("SELECT * FROM cell WHERE " + where.format(1))
        database.execute("UPDATE cell SET checksum = ? WHERE key = ?", [checksum(row), row[0]])
    report = run_json("report", tmp_path / "part.db", "-o", tmp_path / "out")
    assert (report["cells"], report["failed"], report["missing"]) == (22, 1, 3)
    page = (tmp_path / "out" / "index.html").read_text()
    assert "3 of 18 cells are not finished yet. 1 of 18 cells failed." in page and "too &lt;hot&gt;" in page


def test_bad_stores(store, tmp_path):
    out = tmp_path / "out"
    assert "no-such.db" in refuse("report", tmp_path / "no-such.db", "-o", out, folder=tmp_path)
    (tmp_path / "text.db").write_text("not a store\n" * 100)
    assert "text.db" in refuse("report", tmp_path / "text.db", "-o", out, folder=tmp_path)
    (tmp_path / "empty.db").write_bytes(b"")
    assert "empty.db" in refuse("report", tmp_path / "empty.db", "-o", out, folder=tmp_path)
    shutil.copy(store, tmp_path / "cut.db")
    with (tmp_path / "cut.db").open("r+b") as file:
        file.truncate(6000)
    assert "cut.db" in refuse("report", tmp_path / "cut.db", "-o", out, folder=tmp_path)
    shutil.copy(store, tmp_path / "none.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "none.db")) as database, database:
        database.execute("DELETE FROM study")
    assert "none.db: holds no study" in refuse("report", tmp_path / "none.db", "-o", out)
    assert not out.exists()


def test_folders_that_are_refused(store, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "thesis.tex").write_text("mine")
    assert "thesis.tex" in refuse("report", store, "-o", kept, folder=kept)
    assert "not a folder" in refuse("report", store, "-o", kept / "thesis.tex", folder=kept)
    assert "no/such" in refuse("report", store, "-o", tmp_path / "no" / "such")
    assert "--output" in refuse("report", store)


def test_files_of_the_user_survive(store, tmp_path):
    out = tmp_path / "out"
    run("report", store, "-o", out)
    (out / "figures" / "mine.png").write_bytes(b"mine")
    (out / "notes.txt").write_text("mine")
    run("report", store, "-o", out)
    assert (out / "figures" / "mine.png").read_bytes() == b"mine" and (
        out / "notes.txt"
    ).read_text() == "mine"
    changed = out / "figures" / "tiny-1-learning-curves.csv"
    changed.write_text("corrected by hand\n")
    line = refuse("report", store, "-o", out, folder=tmp_path)
    assert "tiny-1-learning-curves.csv" in line and "move it away" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folder(store, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert "Permission denied" in refuse("report", store, "-o", tmp_path / "out")


def test_unwritable_place(store):
    """For root too: nothing can be made in /proc."""
    assert "/proc/report" in refuse("report", store, "-o", "/proc/report")


def test_without_gnuplot(store, tmp_path):
    done = run("report", store, "-o", tmp_path / "out", status=2, env={"PATH": str(tmp_path)})
    assert "gnuplot" in done.stderr and not (tmp_path / "out").exists()


def test_shipped_studies_ask_for_figures():
    studies = sorted((ROOT / "studies").glob("*-small.toml"))
    assert len(studies) == 18 and all("[[figure]]" in path.read_text() for path in studies)
