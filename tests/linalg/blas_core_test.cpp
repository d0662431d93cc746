// The choice of BLAS kernels: the decision as a table, and the kernels of this very process.
#include "linalg/blas_core.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace headlens {
namespace {

struct Row {
  const char* core;
  SimdLevel level;
  bool halves;
  bool fits;
};

TEST(BlasCore, FitsTheProcessor) {
  const Row table[] = {
      {"SkylakeX", SimdLevel::avx512, false, true},
      {"Cooperlake", SimdLevel::avx512, false, true},
      {"SapphireRapids", SimdLevel::avx512, false, true},
      {"SapphireRapids", SimdLevel::avx512, true, true},
      {"Haswell", SimdLevel::avx512, false, false},
      {"Zen", SimdLevel::avx512, false, false},
      {"Haswell", SimdLevel::avx512, true, true},
      {"Zen", SimdLevel::avx512, true, true},
      {"Prescott", SimdLevel::avx512, false, false},
      {"Prescott", SimdLevel::avx512, true, false},
      {"Haswell", SimdLevel::avx2, false, true},
      {"Zen", SimdLevel::avx2, true, true},
      {"SkylakeX", SimdLevel::avx2, false, true},
      {"Prescott", SimdLevel::avx2, false, false},
      {"Core2", SimdLevel::avx2, false, false},
      {"Penryn", SimdLevel::avx2, false, false},
      {"Nehalem", SimdLevel::avx2, false, false},
      {"Sandybridge", SimdLevel::avx2, false, false},
      {"Barcelona", SimdLevel::avx2, true, false},
      {"Bulldozer", SimdLevel::avx2, true, false},
      {"", SimdLevel::avx2, false, false},
      {"Prescott", SimdLevel::portable, false, true},
      {"armv8", SimdLevel::portable, false, true},
  };
  for (const Row& row : table)
    EXPECT_EQ(core_fits(row.core, row.level, row.halves), row.fits)
        << row.core << " on " << name(row.level) << (row.halves ? " (halves)" : "");
}

TEST(BlasCore, TheWantedCoreFits) {
  for (const SimdLevel level : {SimdLevel::avx2, SimdLevel::avx512})
    for (const bool halves : {false, true})
      EXPECT_TRUE(core_fits(wanted_core(level), level, halves)) << name(level);
  EXPECT_EQ(wanted_core(SimdLevel::portable), "");
}

// If this fails, every benchmark and every timing of this process is several times too slow.
TEST(BlasCore, ThisProcessRunsFittingKernels) {
  const char* chosen = std::getenv("OPENBLAS_CORETYPE");
  const bool by_us = std::getenv("HEADLENS_BLAS_REPAIRED") != nullptr;
  if (chosen && *chosen && !by_us) GTEST_SKIP() << "OPENBLAS_CORETYPE=" << chosen << " was given";
  const BlasInfo info = blas_info();
  EXPECT_NE(info.library.find("OpenBLAS"), std::string::npos) << info.library;
  ASSERT_TRUE(info.core_fits) << "OpenBLAS runs its " << info.core << " kernels, " << info.wanted_core
                              << " wanted";
  EXPECT_EQ(blas_core_repair(), "");
}

TEST(BlasCore, TheUsersChoiceStands) {
  const char* before = std::getenv("OPENBLAS_CORETYPE");
  const std::string kept = before ? before : "";
  setenv("OPENBLAS_CORETYPE", "Prescott", 1);
  EXPECT_EQ(blas_core_repair(), "");
  before ? setenv("OPENBLAS_CORETYPE", kept.c_str(), 1) : unsetenv("OPENBLAS_CORETYPE");
}

}  // namespace
}  // namespace headlens
