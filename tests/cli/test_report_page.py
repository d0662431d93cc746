"""The page of a report as a browser shows it, on a telephone and on a desk, in light and in dark.

A copy of the page gets a script that measures it and tells the page around it, in which it stands in a frame of the
width of the screen; --dump-dom brings that back. (Chromium's own window is never narrower than 500 pixels.)
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

# A study whose figures have two panels, tables of five columns, long names, and findings that do not hold.
PANELS = """
name = "panels"
title = "Two panels"
question = "Does everything fit on a telephone?"
command = "fit"
seeds = [1, 2, 3]
record = ["nmse"]
[fixed]
keys = 3
dim = 3
test-samples = 100
[grid]
samples = [8, 16, 32, 64, 128, 256]
[variants.target]
"a power mean with a name that is long" = {task = "power-mean", degree = 1}
"correlation" = {task = "correlation", degree = 1, pure = true}
[variants.model]
RFA = {model = "rfa", heads = 20}
BRFA = {model = "brfa", heads = 20}
RFMLP = {model = "mlp", heads = 80}
[[figure]]
kind = "learning-curves"
title = "Errors"
x = "samples"
y = "nmse"
panel = "target"
series = "model"
[[figure]]
kind = "sample-table"
title = "Training sets needed"
x = "samples"
quantity = "nmse"
panel = "target"
series = "model"
[[figure]]
kind = "phase-diagram"
title = "A grid"
x = "samples"
y = "model"
panel = "target"
quantity = "nmse"
[[finding]]
text = "RFMLP has a smaller error than RFA."
quantity = "nmse"
x = "samples"
better = {model = "RFMLP"}
worse = {model = "RFA"}
where = {target = "a power mean with a name that is long"}
from = 64
to = 256
"""

PROBE = """<script>
const seen = (element) => element.getClientRects().length > 0;
const box = (element) => { const b = element.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
const inside = (inner, outer) => inner[0] >= outer[0] - 1 && inner[1] >= outer[1] - 1
                              && inner[2] <= outer[2] + 1 && inner[3] <= outer[3] + 1;
const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
                      .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const contrast = (a, b) => { const [x, y] = [light(a), light(b)]; return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); };
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
function measured(svg) {
  const frame = box(svg), marks = [...svg.querySelectorAll("path, polygon, use, rect")].filter((m) => !m.closest("defs"));
  const drawn = marks.filter((m) => { const b = m.getBoundingClientRect(); return b.width + b.height > 0; });
  const texts = [...svg.querySelectorAll("text")].filter(seen);
  const card = behind(svg);
  const series = drawn.map((m) => getComputedStyle(m)).flatMap((s) => [s.stroke, s.color]).filter((c) => c.startsWith("rgb("));
  return {frame, marks: drawn.length, inside: drawn.every((m) => inside(box(m), frame)),
          readable: texts.every((t) => { const b = box(t); return b[0] >= frame[0] - 1 && b[2] <= frame[2] + 1; }),
          texts: texts.length, size: Math.min(...texts.map((t) => t.getBoundingClientRect().height)),
          titles: texts.filter((t) => t.closest("g[font-weight], [font-weight]")).map(box),
          dim: texts.filter((t) => { const fill = rgb(getComputedStyle(t).fill); return fill.join() !== "253,253,253"
                 && fill.join() !== "16,18,20" && contrast(fill, card) < 4.5; }).map((t) => t.textContent),
          colours: [...new Set(series)]};
}
addEventListener("load", () => {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const figures = [...document.querySelectorAll("figure")].map((figure) => {
    const shown = [...figure.querySelectorAll(".drawing")].filter(seen);
    return {id: figure.id, shown: shown.length, ...measured(shown[0].querySelector("svg")),
            caption: figure.querySelector("figcaption").innerText.length};
  });
  const findings = [...document.querySelectorAll("ol.findings > li")].map((li) => {
    const svg = li.querySelector(".compared svg");
    return svg && {...measured(svg), said: box(li.querySelector(".said"))};
  });
  const tables = [...document.querySelectorAll("table")].map((table) => {
    const scroll = table.parentElement;
    scroll.scrollLeft = 1e6;
    const last = table.querySelector("tr").lastElementChild;
    return {table: box(table), box: box(scroll), width: innerWidth, last: box(last)};
  });
  const words = [...document.querySelectorAll("h1, h2, h3, h4, p, a, b, summary, th, td, small, dt, dd, pre, .chip")]
    .filter((e) => seen(e) && e.innerText.trim());
  const dim = words.filter((e) => contrast(rgb(getComputedStyle(e).color), behind(e)) < 4.5).map((e) => e.outerHTML);
  const cut = words.filter((e) => !e.closest(".scroll, pre") && (box(e)[2] > innerWidth + 1 || box(e)[0] < -1));
  const terms = Object.fromEntries([...document.querySelectorAll("dl.terms dt")].map((dt) =>
    [dt.innerText, dt.nextElementSibling.innerText]));
  parent.postMessage(JSON.stringify({figures, findings, tables, dim, terms, cut: cut.map((e) => e.outerHTML),
    fetched: performance.getEntriesByType("resource").map((entry) => entry.name),
    width: innerWidth, page: document.documentElement.scrollWidth, background: behind(document.body)}), "*");
});
</script></body>"""

FRAME = """<body style="margin:0"><pre id="probe"></pre>
<iframe src="{page}" style="border:0;width:{width}px;height:1000px"></iframe>
<script>addEventListener("message", (m) => {{ document.getElementById("probe").textContent = m.data; }});</script>
"""

DARK = "--blink-settings=preferredColorScheme=0"
SCREENS = [(width, scheme) for width in (400, 1280) for scheme in ("light", "dark")]


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


def probe(page, folder, width, scheme, extra=""):
    """What the page looks like on a screen of this width."""
    name = f"{width}-{scheme}-{len(extra)}"
    (folder / f"probe-{name}.html").write_text(page.read_text().replace("</body>", extra + PROBE))
    frame = folder / f"frame-{name}.html"
    frame.write_text(FRAME.format(page=f"probe-{name}.html", width=width))
    dark = [DARK] if scheme == "dark" else []
    dom = browse(
        "--window-size=1400,1100", "--virtual-time-budget=10000", *dark, "--dump-dom", frame.as_uri()
    )
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
    for text in PANELS, STUDY, RECOVERY:
        (folder / "study.toml").write_text(text)
        run("study run", folder / "study.toml", "-o", folder / "results.db")
    return run_json("report", folder / "results.db", "-o", folder / "report"), folder


@pytest.fixture(scope="module", params=SCREENS, ids=[f"{width}-{scheme}" for width, scheme in SCREENS])
def seen(request, report):
    """The page on one of the screens."""
    return probe(report[1] / "report" / "index.html", report[1], *request.param) | {
        "scheme": request.param[1]
    }


def test_the_page_never_scrolls_sideways(seen):
    assert seen["page"] <= seen["width"] and seen["cut"] == []


def test_every_figure_is_whole_on_the_screen(report, seen):
    assert [f["id"] for f in seen["figures"]] == [f["name"] for f in report[0]["figures"]]
    for figure in seen["figures"]:
        left, top, right, bottom = figure["frame"]
        assert figure["shown"] == 1 and 0 <= left < right <= seen["width"], figure
        assert right - left > 200 and bottom - top > 80, figure
        assert figure["marks"] >= 2 and figure["texts"] >= 4 and figure["caption"] > 50, figure
        assert figure["inside"] and figure["readable"], figure
        assert figure["size"] > 9, figure  # pixels: drawings are not shrunk until nobody can read them


def test_panels_are_stacked_on_a_telephone(seen):
    """Titles of panels are below each other there, and side by side on a desk."""
    for figure in seen["figures"]:
        if not figure["id"].startswith("panels-"):
            continue
        (first_left, first_top, *_), (second_left, second_top, *_) = figure["titles"]
        if seen["width"] == 400:
            assert abs(first_left - second_left) < 2 and second_top - first_top > 100, figure
        else:
            assert abs(first_top - second_top) < 2 and second_left - first_left > 100, figure


def test_the_first_figure_leads(seen):
    assert seen["figures"][0]["frame"][1] < 900


def test_every_finding_has_its_figure(report, seen):
    assert len(seen["findings"]) == len(report[0]["findings"])
    for finding in seen["findings"]:
        left, top, right, _ = finding["frame"]
        assert 0 <= left < right <= seen["width"] and finding["marks"] >= 3 and finding["readable"], finding
        said = finding["said"]
        assert top >= said[3] if seen["width"] == 400 else left >= said[2], finding


def test_tables_can_be_reached(seen):
    """A table stays in its box, and its last column can be scrolled to."""
    assert len(seen["tables"]) >= 5
    for table in seen["tables"]:
        assert 0 <= table["box"][0] and table["box"][2] <= table["width"] + 1, table
        assert table["last"][2] <= table["box"][2] + 1, table


def test_colours_can_be_seen(seen):
    """WCAG: 4.5 for text, 3 for lines and markers, on the card in either scheme."""
    assert seen["dim"] == []
    background = seen["background"]
    assert max(background) < 60 if seen["scheme"] == "dark" else min(background) > 200
    for figure in seen["figures"] + seen["findings"]:
        assert figure["dim"] == [], figure
    curves = next(f for f in seen["figures"] if f["id"] == "panels-1-learning-curves")
    card = (0x15, 0x1B, 0x23) if seen["scheme"] == "dark" else (255, 255, 255)
    models = MODELS[seen["scheme"]]
    assert set(models) <= set(curves["colours"])
    assert all(contrast(tuple(map(int, re.findall(r"\d+", colour))), card) >= 3 for colour in models)


# RFA, BRFA, RFMLP
MODELS = {
    "light": ["rgb(0, 114, 178)", "rgb(0, 158, 115)", "rgb(213, 94, 0)"],
    "dark": ["rgb(75, 169, 234)", "rgb(62, 199, 155)", "rgb(245, 139, 70)"],
}


def contrast(a, b):
    def light(colour):
        linear = [
            v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    x, y = light(a), light(b)
    return (max(x, y) + 0.05) / (min(x, y) + 0.05)


def test_terms_are_explained(seen):
    terms = seen["terms"]
    names = {"BRFA", "Error (nmse)", "Target: power mean", "Target: correlation", "Training sets"}
    names |= {"RFA (RFA's)", "RFMLP (plain <b> `network`)"}  # and what a study calls them
    assert names <= set(terms)
    assert "y = (1/N) Σi ⟨β, xi⟩p" in terms["Target: power mean"].replace("\n", "")
    assert "variance of y" in terms["Error (nmse)"] and "Target: native" not in terms


def test_nothing_is_fetched(seen):
    assert seen["fetched"] == []


def test_the_probe_would_see_a_request(report):
    found = probe(
        report[1] / "report" / "index.html",
        report[1],
        1280,
        "light",
        '<img src="http://elsewhere.test/x.png">',
    )
    assert found["fetched"] == ["http://elsewhere.test/x.png"]


def test_the_probe_would_see_a_wide_page(report):
    wide = '<p style="width:1000px">wide</p>'
    found = probe(report[1] / "report" / "index.html", report[1], 400, "light", wide)
    assert found["page"] > found["width"] and found["cut"] == [wide]


def test_addresses_stay_in_the_folder(report):
    page = report[1] / "report" / "index.html"
    text = page.read_text()
    for address in re.findall(r"""(?:href|src)=["']([^"']*)["']""", text):
        if address.startswith("#"):
            assert re.search(f"""id=["']{re.escape(address[1:])}["']""", text), address
        else:
            assert (page.parent / address).is_file(), address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshot(report, tmp_path, scheme):
    _, folder = report
    shot = tmp_path / "shot.png"
    dark = [DARK] if scheme == "dark" else []
    page = (folder / "report" / "index.html").as_uri()
    browse("--window-size=500,700", f"--screenshot={shot}", *dark, page)
    image = pixels(shot).astype(float)
    assert image.shape == (700, 500, 3) and image.std() > 8
    assert image.mean() > 200 if scheme == "light" else image.mean() < 70
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 30
