"""Every number of heads from 1 to 9 is found behind noise, not only powers of two."""

from noisy_heads import run

SEEDS = 3


def test_noisy_heads_are_counted(report):
    results = list(run(range(SEEDS)))
    wrong = [f"{case}: {status} with {heads} heads" for case, good, status, heads, _ in results if not good]
    slowest = max(seconds for *_, seconds in results)
    report(
        f"noisy labels: {len(results) - len(wrong)} of {len(results)} counted right, slowest {slowest:.1f} s"
    )
    assert not wrong, "\n".join(wrong)
