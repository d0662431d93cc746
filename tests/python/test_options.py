"""Signatures and docstrings against the tables of options, from which the command line is made, too."""

import inspect
import re

import headlens
import pytest
from headlens import _core

RENAMED = {"score": "score_function", "seed": "random_state"}  # scikit-learn has a method `score`
ESTIMATOR = ("FeatureOptions", "FitOptions")
TAKERS = {  # a callable: the structs whose options it takes, and those that it has no parameter for
    headlens.RandomFeatureAttentionRegressor: (ESTIMATOR, set()),
    headlens.RandomFeatureAttentionClassifier: (ESTIMATOR, {"huber_delta", "solver"}),
    headlens.AttentionKernelRidge: (ESTIMATOR, {"heads", "head_rank", "loss", "norm_ball", "huber_delta"}),
    headlens.attention_kernel: (("FeatureOptions", "KernelOptions"), {"heads"}),
    headlens.recover: (("RecoverOptions", "SculptOptions"), set()),
    headlens.generate: (("TaskOptions",), set()),
}
OTHERWISE = {  # defaults of the package that are meant to differ
    "precision": "auto",  # that of the input
    "random_state": None,  # as scikit-learn has it
    # Everything is chosen where nothing is said.
    **{
        (kind, name): "auto"
        for kind in (headlens.RandomFeatureAttentionRegressor, headlens.RandomFeatureAttentionClassifier)
        for name in ("model", "heads", "score_function", "loss")
    },
    (headlens.generate, "precision"): "f64",
    (headlens.generate, "task"): inspect.Parameter.empty,
}


def default_of(row):
    """The default of a table as Python writes it."""
    if row["unset"]:
        return None if row["nothing"] or row["kind"] == "matrix" else 0
    text = row["default"]
    if row["kind"] == "flag":
        return text == "true"
    if row["kind"] in ("whole", "real") and text != row["nothing"]:
        return int(text) if row["kind"] == "whole" else float(text)
    return int(text) if re.fullmatch(r"\d+", text) else text


@pytest.mark.parametrize("taker", TAKERS, ids=lambda taker: taker.__name__)
def test_signatures(taker):
    structs, without = TAKERS[taker]
    parameters = inspect.signature(taker).parameters
    for struct in structs:
        for key, row in _core.OPTIONS[struct].items():
            name = key if key in parameters else RENAMED.get(key, key)
            assert (name in parameters) != (key in without), f"{key} of {struct}"
            if name in parameters:
                meant = OTHERWISE.get((taker, name), OTHERWISE.get(name, default_of(row)))
                found = parameters[name].default
                assert found == meant and type(found) is type(meant), name


@pytest.mark.parametrize("struct", _core.OPTIONS)
def test_structs_have_the_defaults_of_their_table(struct):
    options = getattr(_core, struct)()
    for key, row in _core.OPTIONS[struct].items():
        if hasattr(options, key) and row["kind"] in ("flag", "whole", "real", "word"):
            value = getattr(options, key)
            if value == _core.INFINITE_HEADS:
                value = "inf"
            meant = default_of(row)
            assert value == (None if meant and row["nothing"] == meant != "inf" else meant), key


def test_a_wrong_type_is_named():
    with pytest.raises(TypeError, match="max_heads: 'many' given, a str, expected a whole number"):
        headlens.recover([[[1.0]]], [[[1.0]]], max_heads="many")


@pytest.mark.parametrize(
    "options, said",
    [
        ({"huber_delta": -1.0}, "^huber_delta: -1 given, expected a number above 0$"),
        ({"ridge": -1.0}, "^ridge: -1 given, expected auto or a number, 0 or more$"),
        ({"head_rank": 0}, "^head_rank: 0 given"),
        (
            {"loss": "huber", "ridge": 0.0},
            "^ridge: 0 given, but loss='huber' needs a positive ridge or a norm_ball: ",
        ),
        ({"centres": 3}, r"^centres: only a model with infinitely many heads \(heads='inf'\)"),
    ],
)
def test_messages_name_parameters(options, said, tokens):
    X, y = tokens
    with pytest.raises(ValueError, match=said):
        headlens.RandomFeatureAttentionRegressor(**{"heads": 5, **options}).fit(X, y)
