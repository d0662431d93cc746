"""Figures measured by the long tests, printed after them."""

import pytest

FIGURES = []


@pytest.fixture
def report():
    return FIGURES.append


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("measured")
        for line in FIGURES:
            terminalreporter.write_line(line)
