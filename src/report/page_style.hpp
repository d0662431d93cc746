// The style sheet of a report.
#pragma once

namespace headlens::report {

inline constexpr const char* kPageStyle = R"css(
:root { color-scheme: light dark; --back: #f6f7f9; --card: #ffffff; --ink: #1f2328; --soft: #59636e; --line: #dde1e6;
  --link: #0a5fb4; --code: #f0f2f5; --yes: #12693f; --yes-back: #dcf3e6; --part: #7a5200; --part-back: #fdf0cf;
  --no: #a2201b; --no-back: #fde4e1; --open: #4a5560; --open-back: #e7ebf0; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --card: #151b23; --ink: #e6edf3; --soft: #9ea7b1;
  --line: #2c343e; --link: #6cb6ff; --code: #1b222c; --yes: #6fdca3; --yes-back: #12352a; --part: #f0c75e;
  --part-back: #3a2f10; --no: #ff9d96; --no-back: #43191a; --open: #b6c0ca; --open-back: #2a323c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.6 Inter, "Helvetica Neue", "Segoe UI", "Liberation Sans", Arial, sans-serif; }
main, header, footer { max-width: 66rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 3.5rem; }
footer { padding-top: 1rem; padding-bottom: 4rem; color: var(--soft); font-size: .9rem; }
h1 { font-size: 2.1rem; line-height: 1.2; letter-spacing: -.015em; margin: 0 0 .6rem; text-wrap: balance; }
h2 { font-size: 1.6rem; line-height: 1.25; letter-spacing: -.01em; margin: 0 0 .4rem; text-wrap: balance; }
h3 { font-size: 1.05rem; margin: 2.6rem 0 .8rem; }
p { margin: 0 0 .8rem; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
.soft { color: var(--soft); }
.lead { font-size: 1.15rem; line-height: 1.5; color: var(--soft); max-width: 46rem; }
nav { margin: 1.2rem 0; display: flex; flex-wrap: wrap; gap: .5rem 1.6rem; }
section { border-top: 1px solid var(--line); margin-top: 3.2rem; padding-top: 2.6rem; }
header + main section:first-child { margin-top: 2.4rem; }
header + main section.only { border-top: 0; margin-top: 0; padding-top: .4rem; }
.counts { font-size: .92rem; color: var(--soft); }
ol.findings { list-style: none; margin: 0; padding: 0; display: grid; gap: .9rem; }
ol.findings > li { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.25rem;
  display: grid; grid-template-columns: minmax(0, 1fr) 340px; gap: .6rem 1.6rem; align-items: start; }
.said { min-width: 0; }
.said:only-child { grid-column: 1 / -1; }
.claim { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: .3rem 1rem; margin: 0; }
.claim b { font-weight: 600; }
.verdict { margin: .45rem 0 0; max-width: 52rem; }
.chip { font-size: .82rem; font-weight: 600; border-radius: 99px; padding: .1rem .7rem; white-space: nowrap; }
.chip.holds { color: var(--yes); background: var(--yes-back); }
.chip.holds-in-part { color: var(--part); background: var(--part-back); }
.chip.does-not-hold { color: var(--no); background: var(--no-back); }
.chip.undecided { color: var(--open); background: var(--open-back); }
figure { margin: 0 0 1.8rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px; overflow: hidden; }
figure h4 { margin: 0; padding: 1.1rem 1.4rem .2rem; font-size: 1.1rem; }
.drawing { padding: .4rem .6rem 0; }
.drawing svg, .compared svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
.drawing.narrow { display: none; }
figcaption { padding: .6rem 1.4rem 1.1rem; }
figcaption p { max-width: 54rem; font-size: .95rem; }
figcaption ul { list-style: none; margin: 0 0 .8rem; padding: 0; font-size: .95rem; }
figcaption li { margin: .3rem 0; }
.files { font-size: .88rem; margin: 0; }
.files a { margin-right: .9rem; }
details { margin: .7rem 0 0; }
summary { cursor: pointer; color: var(--soft); font-size: .92rem; }
.about { margin: .7rem 0 0; font-size: .88rem; color: var(--soft); max-width: 54rem; }
h3 + .about { margin: -.4rem 0 .8rem; }
.scroll { overflow-x: auto; margin: .4rem 0 .6rem; max-width: 100%; width: fit-content; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .32rem .85rem; vertical-align: top; white-space: nowrap; }
th { font-weight: 500; color: var(--soft); }
tbody th, thead th:first-child { text-align: left; }
tbody th { color: var(--ink); font-weight: 400; }
thead th { border-bottom: 1px solid var(--line); }
tbody tr.first:not(:first-child) > * { border-top: 1px solid var(--line); }
td small { display: block; color: var(--soft); font-size: .76rem; line-height: 1.3; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.6rem; margin: 0; font-size: .93rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
dl.terms { gap: .9rem 1.6rem; grid-template-columns: minmax(9rem, 13rem) minmax(0, 46rem); margin-top: 1rem; }
dl.terms dt { color: var(--ink); font-weight: 600; overflow-wrap: anywhere; }
dt:target { background: var(--part-back); }
.formula { display: block; font-family: "Cambria Math", "STIX Two Math", Georgia, "Liberation Serif", serif; font-size: 1.06rem;
  line-height: 1.9; }
.explained { font-size: .92rem; color: var(--soft); max-width: 54rem; }
pre, code { font: .84rem/1.55 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1.1rem; overflow-x: auto; margin: .6rem 0; }
@media (max-width: 56rem) { ol.findings > li { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 44rem) { main, header, footer { padding-left: 1rem; padding-right: 1rem; } header { padding-top: 2rem; }
  h1 { font-size: 1.7rem; } h2 { font-size: 1.35rem; } .drawing.wide { display: none; } .drawing.narrow { display: block; }
  .drawing { padding: .3rem .2rem 0; } figure h4 { padding: 1rem 1rem .2rem; } figcaption { padding: .6rem 1rem 1rem; }
  ol.findings > li { padding: .9rem 1rem; } dl, dl.terms { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .7rem; } }
@media print { details { display: none; } figure, ol.findings > li { break-inside: avoid; } }
)css";

}  // namespace headlens::report
