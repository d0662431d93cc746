"""Coefficients of src/features/arc_cosine.hpp: python3 scripts/arc_cosine_series.py

kappa(rho) = E[relu(g) relu(g')] has two power series with positive coefficients, of radius 1 each,

  kappa = 1/(2 pi) + rho/4 + rho^2 sum_j a_j (rho^2)^j,      a_j = C(2j,j) 4^-j / (2 pi (2j+1)(2j+2))
  kappa = rho/4 + |rho|/4 + z^(3/2) sum_j b_j z^j,           b_j = 8 C(2j,j) 4^-j / (2 pi (2j+1)(2j+3)),  z = (1-|rho|)/2

the first used for |rho| <= 1/2, the second beyond: rho^2 and z are then at most 1/4. On [0, 1/4] each sum is
expanded in Chebyshev polynomials, cut where what is left out adds less than 2^-50 to 2 pi kappa, and written as a
polynomial again. Everything is exact rational arithmetic but for the factor 1/(2 pi).
"""

from fractions import Fraction as F
from math import comb

TERMS = 60  # (1/4)^60 is far below any rounding
TWO_PI = F("6.28318530717958647692528676655900576839433879875021")
END = F(1, 4)


def first(j):
    return F(comb(2 * j, j), 4**j) / ((2 * j + 1) * (2 * j + 2))


def second(j):
    return 8 * F(comb(2 * j, j), 4**j) / ((2 * j + 1) * (2 * j + 3))


def chebyshev(series):
    """Coefficients of sum_j series(j) x^j in T_k(8 x - 1): x^j as a combination of T_k, exactly."""
    # x = END (1 + t) / 2 and ((1 + t) / 2)^j = 4^-j [C(2j,j) + 2 sum_k C(2j,j+k) T_k(t)].
    out = [F(0)] * (TERMS + 1)
    for j in range(TERMS + 1):
        scale = series(j) * END**j / 4**j
        for k in range(j + 1):
            out[k] += scale * comb(2 * j, j - k) * (1 if k == 0 else 2)
    return out


def polynomial(coefficients):
    """Powers of x of sum_k c_k T_k(8 x - 1)."""
    total, before, now = [F(0)] * len(coefficients), [F(1)], [F(-1), F(8)]
    for k, c in enumerate(coefficients):
        t = before if k == 0 else now
        for i, value in enumerate(t):
            total[i] += c * value
        if k:
            following = [F(0)] + [16 * v for v in now]
            for i, value in enumerate(now):
                following[i] -= 2 * value
            for i, value in enumerate(before):
                following[i] -= value
            before, now = now, following
    return total


for name, series, factor in (("kKappaSmall", first, END), ("kKappaLarge", second, END ** F(3, 2))):
    expansion = chebyshev(series)
    rest = [sum(abs(c) for c in expansion[k:]) * F(float(factor)) for k in range(TERMS)]
    degree = next(k for k in range(TERMS) if rest[k] < F(1, 2**50)) - 1
    print(f"{name}: degree {degree}, truncation below {float(rest[degree + 1] / TWO_PI):.1e}")
    for value in polynomial(expansion[: degree + 1]):
        print(f"    {float(value / TWO_PI).hex()},")
