"""The figure and the page of `make demo`, from made-up curves."""

import sys
import xml.etree.ElementTree as xml
from itertools import product

from binary import ROOT

sys.path.insert(0, str(ROOT / "examples"))


def test_figure_and_page_are_well_formed_and_self_contained():
    import demo

    counts, names = (10, 100), [(t.title, m.title) for t, m in product(demo.TARGETS, demo.MODELS)]
    curves = {name: [1.2, 0.001 * (k + 1)] for k, name in enumerate(names)}
    svg = demo.curves_svg(demo.TARGETS, demo.MODELS, counts, curves)
    figure = xml.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert len(figure.findall(f"{space}polyline")) == len(names)
    width, height = (float(figure.get(side)) for side in ("width", "height"))
    for line in figure.findall(f"{space}polyline"):
        points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
        assert all(0 < x < width and 0 < y < height for x, y in points) and points[0][1] < points[1][1]
    page = demo.report_html(
        demo.TARGETS, demo.MODELS, counts, curves, svg, ["headlens fit a < b"], "headlens 0", "d = 1"
    )
    assert svg in page and "headlens fit a &lt; b" in page
    assert page.count("http") == svg.count("http") == 1  # the name space: nothing is loaded from elsewhere
