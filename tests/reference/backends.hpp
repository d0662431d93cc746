// Tests that run on every back end: INSTANTIATE with testing::ValuesIn(backend_names()), and
// skip_if_absent().
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backend/backend.hpp"

namespace headlens::reference {

inline BackendChoice choice_of(const std::string& name) {
  return name == "cuda" ? BackendChoice::cuda : BackendChoice::cpu;
}

inline std::vector<std::string> backend_names() {
  std::vector<std::string> out;
  for (const BackendInfo& info : backend::backends()) out.push_back(info.name);
  return out;
}

// A suite with one test per back end; those that are absent are skipped with the reason.
class OnEveryBackend : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const BackendInfo& info : backend::backends())
      if (info.name == GetParam() && !info.available) GTEST_SKIP() << info.name << ": " << info.reason;
  }
  Execution execution() const { return {.threads = 1, .backend = choice_of(GetParam())}; }
};

}  // namespace headlens::reference
