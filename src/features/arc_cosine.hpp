// Coefficients of kappa(rho) = [sqrt(1 - rho^2) + rho (pi - arccos rho)] / (2 pi) = E[relu(g) relu(g')]:
//
//   |rho| <= 1/2    kappa = 1/(2 pi) + rho/4 + rho^2 small(rho^2)
//   beyond          kappa = (rho + |rho|)/4 + z^(3/2) large(z),  z = (1 - |rho|) / 2
//
// From scripts/arc_cosine_series.py, which says where they come from. Truncation is below
// 1e-16.
#pragma once

namespace headlens {

constexpr double kKappaSmall[] = {
    0x1.45f306dc9c869p-4,  0x1.b2995e7bc97c8p-8,  0x1.04c26b943c816p-9,  0x1.d1a4916ff5e5fp-11,
    0x1.fafbd74f80078p-12, 0x1.37d67dc5c817ep-12, 0x1.916350621c69fp-13, 0x1.64bdbd6ad5645p-13,
    0x1.79bca15db641cp-18, 0x1.de1fac8e72310p-13,
};
constexpr double kKappaLarge[] = {
    0x1.b2995e7b7b606p-2,  0x1.5bade52f90b16p-5,   0x1.bf0426b7c0fc8p-7,  0x1.9de75fffca549p-8,
    0x1.ccf1c149e814fp-9,  0x1.1f179b0803061p-9,   0x1.848f0a64e2116p-10, 0x1.00c0b7799fa5fp-10,
    0x1.197b3f1f7b562p-10, -0x1.c015a79210a43p-13, 0x1.9aca91104c37cp-10,
};
constexpr double kKappaSmallReach = 0.5;  // |rho| up to which the first one holds

}  // namespace headlens
