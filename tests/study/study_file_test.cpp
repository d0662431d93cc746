#include <gtest/gtest.h>

#include "headlens/study.hpp"

namespace headlens::test {

TEST(ShippedStudies, AreRead) {
  const auto folder = std::filesystem::path(HEADLENS_TEST_DIR) / ".." / "studies";
  for (const char* name : {"separation", "bias", "heads", "complexity", "recovery"})
    for (const char* size : {"", "-small"}) {
      const Study study = read_study(folder / (std::string(name) + size + ".toml"));
      EXPECT_EQ(study.name, std::string(name) + size);
      EXPECT_GE(study.seeds.size(), 5U);
      EXPECT_FALSE(study.figures.empty());
    }
}

}  // namespace headlens::test
