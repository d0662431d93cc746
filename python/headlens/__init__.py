"""What one attention layer can learn, and what can be learned about it.

Learning on sets, with the habits of scikit-learn:

>>> import headlens
>>> X, y = headlens.generate("power-mean", degree=2, dim=4, keys=5, count=200)
>>> X.shape                                     # query first, then the keys
(200, 6, 4)
>>> model = headlens.RandomFeatureAttentionRegressor(heads=50, random_state=0).fit(X, y)
>>> model.predict(X).shape
(200,)

Recovering the heads of an attention layer from examples of it:

>>> layer = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
>>> X, Y = layer.examples(count=60, tokens=4)
>>> headlens.recover(X, Y).status
'recovered'
"""

from typing import TYPE_CHECKING

from ._blas_core import load_core as _load_core

_load_core()

from . import _core  # noqa: E402
from ._call import NumericalWarning, info  # noqa: E402
from ._explain import Explanation, explain  # noqa: E402
from ._generate import generate  # noqa: E402
from ._hardness import HiddenLabel  # noqa: E402
from ._inspect import Comparison, Fourier, compare, fourier, inspect  # noqa: E402
from ._kernel import attention_kernel  # noqa: E402
from ._layer import AttentionLayer  # noqa: E402
from ._match import Check, Match, check, match  # noqa: E402
from ._recover import Certificate, Recovery, recover  # noqa: E402
from ._refit import Refit, refit  # noqa: E402
from ._sets import Sets  # noqa: E402
from ._study import Study  # noqa: E402
from ._theory import Theory, theory  # noqa: E402

if TYPE_CHECKING:
    from . import plot as plot
    from ._estimators import (
        AttentionKernelRidge,
        RandomFeatureAttentionClassifier,
        RandomFeatureAttentionRegressor,
        load,
    )

__version__: str = _core.__version__

# These need scikit-learn, which takes a second to import: only who asks for them waits.
_LAZY = (
    "AttentionKernelRidge",
    "RandomFeatureAttentionClassifier",
    "RandomFeatureAttentionRegressor",
    "load",
)

__all__ = [
    "AttentionKernelRidge",
    "AttentionLayer",
    "Certificate",
    "Check",
    "Comparison",
    "Explanation",
    "Fourier",
    "HiddenLabel",
    "Match",
    "NumericalWarning",
    "RandomFeatureAttentionClassifier",
    "RandomFeatureAttentionRegressor",
    "Recovery",
    "Refit",
    "Sets",
    "Study",
    "Theory",
    "attention_kernel",
    "check",
    "compare",
    "explain",
    "fourier",
    "generate",
    "info",
    "inspect",
    "load",
    "match",
    "recover",
    "refit",
    "theory",
]


def __getattr__(name: str):
    if name in _LAZY:
        from . import _estimators

        return getattr(_estimators, name)
    if name == "plot":
        import importlib

        return importlib.import_module(".plot", __name__)
    raise AttributeError(f"module 'headlens' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "plot"])
