// Coefficients of kappa(rho) = [sqrt(1 - rho^2) + rho (pi - arccos rho)] / (2 pi) = E[relu(g) relu(g')]:
//
//   |rho| <= 1/2    kappa = 1/(2 pi) + rho/4 + rho^2 small(rho^2)
//   beyond          kappa = (rho + |rho|)/4 + z^(3/2) large(z),  z = (1 - |rho|) / 2
//
// From scripts/arc_cosine_series.py, which says where they come from. Truncation is below 2e-18, so the error
// is that of rounding.
#pragma once

namespace headlens {

constexpr double kKappaSmall[] = {
    0x1.45f306dc9c883p-4,  0x1.b2995e7b7bc02p-8,  0x1.04c26be323283p-9,   0x1.d1a453949e486p-11,
    0x1.fb08135bbd4cep-12, 0x1.37265c77f9bbbp-12, 0x1.9d3e5fd5f1ccep-13,  0x1.278d5637a2f84p-13,
    0x1.792f491c8d830p-14, 0x1.0702de4a1bc52p-13, -0x1.b9396abfb4eb8p-15, 0x1.8732b31e31d32p-13,
};
constexpr double kKappaLarge[] = {
    0x1.b2995e7b7b603p-2,  0x1.5bade52f96435p-5,  0x1.bf0426a9d437fp-7,   0x1.9de766c99d54cp-8,
    0x1.ccf00ed528067p-9,  0x1.1f3748e0aebe4p-9,  0x1.81adc826ba0d2p-10,  0x1.1645e72df4debp-10,
    0x1.645e4de22af16p-11, 0x1.f7b6213a17452p-11, -0x1.aee1ab4e53f26p-12, 0x1.7919715fe99a7p-10,
};
constexpr double kKappaSmallReach = 0.5;  // |rho| up to which the first one holds

}  // namespace headlens
