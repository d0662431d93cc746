"""The page of a report as a browser shows it: every figure has a size and marks, nothing is fetched, light and dark.

A copy of the page gets a script that measures it and writes down what it found; --dump-dom brings that back.
"""

import html
import json
import re
import shutil
import struct
import subprocess
import zlib

import numpy as np
import pytest
from binary import run, run_json
from test_report import RECOVERY, STUDY

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")

PROBE = """<pre id="probe"></pre><script>
addEventListener("load", () => {
  const figures = [...document.querySelectorAll("figure")].map((figure) => {
    const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect();
    const marks = [...svg.querySelectorAll("path, polygon, use, rect")].filter((mark) => !mark.closest("defs"));
    const seen = marks.map((mark) => mark.getBoundingClientRect()).filter((b) => b.width + b.height > 0);
    const inside = seen.every((b) => b.left >= box.left - 1 && b.right <= box.right + 1
                                  && b.top >= box.top - 1 && b.bottom <= box.bottom + 1);
    const texts = [...svg.querySelectorAll("text")].map((text) => text.getBoundingClientRect());
    const readable = texts.every((b) => b.left >= box.left - 1 && b.right <= box.right + 1);
    return {id: figure.id, width: box.width, height: box.height, marks: seen.length, inside, readable,
            texts: texts.length, caption: figure.querySelector("figcaption").innerText.length};
  });
  const fetched = performance.getEntriesByType("resource").map((entry) => entry.name);
  const wide = document.documentElement.scrollWidth > innerWidth;
  document.getElementById("probe").textContent = JSON.stringify({figures, fetched, wide});
});
</script></body>"""


def browse(*options):
    quiet = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-background-networking",
    ]
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    done = subprocess.run(
        [BROWSER, *quiet, offline, *options], capture_output=True, timeout=120, check=False, text=True
    )
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


def probe(page, copy, extra=""):
    copy.write_text(page.read_text().replace("</body>", extra + PROBE))
    dom = browse("--window-size=1200,1000", "--dump-dom", copy.as_uri())
    return json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S).group(1)))


def pixels(path):
    """An 8-bit RGB or RGBA PNG as an array, with nothing but zlib."""
    blob, at, data = path.read_bytes(), 8, b""
    width, height, depth, kind = struct.unpack(">IIBB", blob[16:26])
    assert depth == 8 and kind in (2, 6)
    while at < len(blob):
        (size,) = struct.unpack(">I", blob[at : at + 4])
        if blob[at + 4 : at + 8] == b"IDAT":
            data += blob[at + 8 : at + 8 + size]
        at += 12 + size
    step = 3 if kind == 2 else 4
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * step)
    image, above = [], np.zeros(width * step, np.uint8)
    for filtered in rows:
        above = unfilter(filtered[0], filtered[1:], above, step)
        image.append(above)
    return np.reshape(image, (height, width, step))[:, :, :3]


def unfilter(kind, row, above, step):
    if kind in (0, 2):
        return row + above if kind == 2 else row
    if kind == 1:
        return np.cumsum(row.reshape(-1, step), axis=0, dtype=np.uint8).ravel()
    line, up = [0] * step + row.tolist(), [0] * step + above.tolist()
    for i in range(step, len(line)):
        a, b, c = line[i - step], up[i], up[i - step]
        if kind == 3:
            guess = (a + b) // 2
        else:
            near = (abs(b - c), abs(a - c), abs(a + b - 2 * c))
            guess = (a, b, c)[near.index(min(near))]
        line[i] = (line[i] + guess) & 255
    return np.array(line[step:], np.uint8)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for text in STUDY, RECOVERY:
        (folder / "study.toml").write_text(text)
        run("study run", folder / "study.toml", "-o", folder / "results.db")
    return run_json("report", folder / "results.db", "-o", folder / "report"), folder


def test_every_figure_is_there_and_nothing_is_fetched(report):
    listed, folder = report
    found = probe(folder / "report" / "index.html", folder / "probe.html")
    assert [f["id"] for f in found["figures"]] == [f["name"] for f in listed["figures"]]
    for figure in found["figures"]:
        assert figure["width"] > 300 and figure["height"] > 80, figure
        assert figure["marks"] >= 2 and figure["texts"] >= 4 and figure["caption"] > 50, figure
        assert figure["inside"] and figure["readable"], figure
    assert found["fetched"] == [] and not found["wide"]


def test_the_probe_would_see_a_request(report):
    _, folder = report
    found = probe(
        folder / "report" / "index.html", folder / "bad.html", '<img src="http://elsewhere.test/x.png">'
    )
    assert found["fetched"] == ["http://elsewhere.test/x.png"]


def test_addresses_stay_in_the_folder(report):
    _, folder = report
    page = folder / "report" / "index.html"
    for address in re.findall(r"""(?:href|src)=["']([^"']*)["']""", page.read_text()):
        assert address.startswith("#") or (page.parent / address).is_file(), address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshot(report, tmp_path, scheme):
    _, folder = report
    shot = tmp_path / "shot.png"
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    page = (folder / "report" / "index.html").as_uri()
    browse("--window-size=500,700", f"--screenshot={shot}", *dark, page)
    image = pixels(shot).astype(float)
    assert image.shape == (700, 500, 3) and image.std() > 8
    assert image.mean() > 200 if scheme == "light" else image.mean() < 70
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 30
