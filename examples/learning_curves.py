"""Learning curves as a hand-written SVG: one panel a target, error against samples, both axes logarithmic."""

from html import escape
from math import ceil, floor, log10

PANEL_WIDTH, PANEL_HEIGHT = 262, 248
LEFT, TOP, GAP, BOTTOM, RIGHT = 78, 118, 30, 60, 24

# Light and dark, both on a background of their own, so that the figure is readable on any page.
STYLE = """
  svg.curves { --back: #ffffff; --frame: #d0d7de; --ink: #1f2328; --soft: #59636e; --grid: #e6eaef;
    --rfa: #0969da; --brfa: #bc4c00; --mlp: #6e7781;
    font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }
  @media (prefers-color-scheme: dark) {
    svg.curves { --back: #151b23; --frame: #3d444d; --ink: #f0f6fc; --soft: #9198a1; --grid: #2a313c;
      --rfa: #58a6ff; --brfa: #f0883e; --mlp: #9198a1; } }
  .back { fill: var(--back); stroke: var(--frame); }
  .grid { stroke: var(--grid); stroke-width: 1; }
  .axis { stroke: var(--frame); stroke-width: 1; fill: none; }
  .mean { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 4; }
  text { fill: var(--ink); font-size: 12px; }
  .title { font-size: 15px; font-weight: 600; }
  .soft { fill: var(--soft); }
  .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
  .mark { stroke: var(--back); stroke-width: 1.2; }
  .rfa.line { stroke: var(--rfa); } .rfa.mark, .rfa.name { fill: var(--rfa); }
  .brfa.line { stroke: var(--brfa); } .brfa.mark, .brfa.name { fill: var(--brfa); }
  .mlp.line { stroke: var(--mlp); } .mlp.mark, .mlp.name { fill: var(--mlp); }
  .name { font-weight: 600; }
"""


def marker(kind, x, y, size=5.0, title=""):
    tip = f"<title>{escape(title)}</title>" if title else ""
    if kind == "rfa":
        return f'<circle class="rfa mark" cx="{x:.1f}" cy="{y:.1f}" r="{size}">{tip}</circle>'
    if kind == "brfa":
        a = size * 0.92
        box = f'x="{x - a:.1f}" y="{y - a:.1f}" width="{2 * a:.1f}" height="{2 * a:.1f}"'
        return f'<rect class="brfa mark" {box}>{tip}</rect>'
    a = size * 1.25
    points = f"{x:.1f},{y - a:.1f} {x + a:.1f},{y + a * 0.75:.1f} {x - a:.1f},{y + a * 0.75:.1f}"
    return f'<polygon class="mlp mark" points="{points}">{tip}</polygon>'


def error_ticks(low, high):
    """1, 2 and 5 times powers of ten inside [low, high]."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [m * 10.0**k for k in decades for m in (1, 2, 5)]
    return [t for t in ticks if low * 0.999 <= t <= high * 1.001]


class Panel:
    def __init__(self, left, counts, low, high):
        self.left, self.counts = left, counts
        self.low, self.high = log10(low), log10(high)

    def x(self, n):
        first, last = log10(self.counts[0]), log10(self.counts[-1])
        return self.left + 14 + (PANEL_WIDTH - 28) * (log10(n) - first) / (last - first)

    def y(self, error):
        return TOP + PANEL_HEIGHT * (self.high - log10(error)) / (self.high - self.low)

    def frame(self, target, ticks, labelled):
        bottom, right = TOP + PANEL_HEIGHT, self.left + PANEL_WIDTH
        yield f'<text class="title" x="{self.left}" y="{TOP - 30}">{escape(target.title)}</text>'
        yield f'<text class="soft" x="{self.left}" y="{TOP - 11}">{escape(target.formula)}</text>'
        for tick in ticks:
            y = self.y(tick)
            yield f'<line class="grid" x1="{self.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            if labelled:
                x = self.left - 8
                yield f'<text class="soft" x="{x}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for n in self.counts:
            x = self.x(n)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
            yield f'<text class="soft" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{n}</text>'
        yield f'<rect class="axis" x="{self.left}" y="{TOP}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}"/>'
        y = self.y(1.0)
        yield f'<line class="mean" x1="{self.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        middle = self.left + PANEL_WIDTH / 2
        yield f'<text class="soft" x="{middle}" y="{bottom + 40}" text-anchor="middle">training sets n</text>'

    def curve(self, model, errors):
        points = [(self.x(n), self.y(e)) for n, e in zip(self.counts, errors)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline class="{model.kind} line" points="{path}"/>'
        for (x, y), n, e in zip(points, self.counts, errors):
            yield marker(model.kind, x, y, title=f"{model.title}, n = {n}: {e:.3g}")


def legend(models):
    x = LEFT
    for model in models:
        name, note = escape(model.title), escape(model.note)
        yield marker(model.kind, x + 6, 36)
        yield f'<text x="{x + 20}" y="40"><tspan class="{model.kind} name">{name}</tspan>'
        yield f'<tspan class="soft" dx="6">{note}</tspan></text>'
        x += PANEL_WIDTH + GAP


def curves_svg(targets, models, counts, curves):
    """curves[target title, model title]: the errors, one for every count."""
    errors = [e for curve in curves.values() for e in curve]
    low, high = min(errors) / 1.35, max(1.0, *errors) * 1.35
    ticks = error_ticks(low, high)
    width = LEFT + len(targets) * PANEL_WIDTH + (len(targets) - 1) * GAP + RIGHT
    height = TOP + PANEL_HEIGHT + BOTTOM
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="curves" {box} role="img">',
        "<title>Learning curves: error against the number of training sets</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        *legend(models),
    ]
    middle = TOP + PANEL_HEIGHT / 2
    parts.append(f'<text class="soft" transform="translate(24 {middle}) rotate(-90)" text-anchor="middle">'
                 "error: MSE / variance of y</text>")  # fmt: skip
    for i, target in enumerate(targets):
        panel = Panel(LEFT + i * (PANEL_WIDTH + GAP), counts, low, high)
        parts += panel.frame(target, ticks, labelled=i == 0)
        for model in reversed(models):
            parts += panel.curve(model, curves[target.title, model.title])
    return "\n".join([*parts, "</svg>"]) + "\n"
