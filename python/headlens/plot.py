"""Figures with matplotlib: learning curves, heads beside the truth, certificates, matches, refits.

Every function draws into the axes it is given, or makes a figure, and returns the axes; nothing is shown or saved.
Colours are those of Okabe and Ito, and series differ by marker too.

>>> import headlens
>>> layer = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
>>> recovery = headlens.recover(*layer.examples(count=60))
>>> headlens.plot.heads(recovery.layer, layer).shape        # Theta and its truth, W and its truth; two heads
(4, 2)
>>> headlens.plot.error_bars(recovery, layer).get_ylabel()
'relative error'
"""

from ._plot_curves import learning_curves, study_curves
from ._plot_match import check, match, refit
from ._plot_recovery import certificate, error_bars, head_count, heads, recovery, trace

__all__ = [
    "certificate",
    "check",
    "error_bars",
    "head_count",
    "heads",
    "learning_curves",
    "match",
    "recovery",
    "refit",
    "study_curves",
    "trace",
]
