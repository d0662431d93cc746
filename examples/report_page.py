"""The demo's report: one self-contained page, light or dark as the reader's system is."""

from html import escape

STYLE = """
:root { --back: #ffffff; --ink: #1f2328; --soft: #59636e; --line: #d0d7de; --code: #f6f8fa; --best: #0969da; }
@media (prefers-color-scheme: dark) { :root {
  --back: #0d1117; --ink: #f0f6fc; --soft: #9198a1; --line: #3d444d; --code: #151b23; --best: #58a6ff; } }
body { margin: 0 auto; max-width: 62rem; padding: 2.5rem 1.25rem 4rem; background: var(--back);
  color: var(--ink); font: 16px/1.6 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { text-wrap: balance; font-size: 1.9rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; }
p, li { max-width: 46rem; }
.soft { color: var(--soft); }
figure { margin: 1.5rem 0; padding-bottom: 2px; overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; min-width: 44rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 36rem; }
th, td { text-align: right; padding: .3rem .8rem; }
th { color: var(--soft); font-weight: 500; }
.left { text-align: left; }
tr.first td { border-top: 1px solid var(--line); padding-top: .6rem; }
tr.last td { padding-bottom: .6rem; }
td.best { color: var(--best); font-weight: 600; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1.1rem;
  overflow-x: auto; font: 13px/1.55 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
details { margin-top: 1rem; }
summary { cursor: pointer; }
"""


def table_rows(targets, models, counts, curves):
    for target in targets:
        # Nobody is best where nobody beats the mean.
        best = [min(0.95, *(curves[target.title, m.title][i] for m in models)) for i in range(len(counts))]
        for k, model in enumerate(models):
            cells = "".join(
                f"<td{' class=best' if e == b else ''}>{e:.3f}</td>"
                for e, b in zip(curves[target.title, model.title], best)
            )
            names = (target.title if k == 0 else "", model.title)
            left = "".join(f'<td class="left">{escape(name)}</td>' for name in names)
            place = "first" if k == 0 else "last" if k == len(models) - 1 else "middle"
            yield f'<tr class="{place}">{left}{cells}</tr>'


def report_html(targets, models, counts, curves, svg, commands, info, setting):
    heads = "".join(f"<th>n = {n}</th>" for n in counts)
    lessons = "".join(f"<li><b>{escape(t.title)}.</b> {escape(t.lesson)}</li>" for t in targets)
    last = escape("\n".join(commands[-4:]))
    everything = escape("\n".join(commands))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>headlens: what one attention layer learns</title><style>{STYLE}</style></head><body>
<h1>What one attention layer learns, and from how many samples</h1>
<p class="soft">Sets of one query x₀ and N keys xᵢ, tokens uniform on the unit sphere, {escape(setting)}.
Each model has frozen random weights and trained values: RFA is attention with random query-key matrices,
BRFA gives these the identity as their mean, RFMLP is a network without attention that has as many trained
parameters. The ridge penalty is chosen by exact leave-one-out error. The error is the mean squared error on
fresh sets over the variance of the target: 1 is no better than predicting the mean.</p>
<figure>{svg}</figure>
<ul>{lessons}</ul>
<h2>The numbers</h2>
<div class="scroll"><table>
<thead><tr><th class="left">target</th><th class="left">model</th>{heads}</tr></thead>
<tbody>{"".join(table_rows(targets, models, counts, curves))}</tbody></table></div>
<h2>How to get them</h2>
<p>Every point is four commands; these are those of the last one.</p>
<pre>{last}</pre>
<details><summary>All {len(commands)} commands, in order</summary><pre>{everything}</pre></details>
<h2>This machine</h2>
<pre>{escape(info.strip())}</pre>
</body></html>
"""
