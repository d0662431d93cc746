// Small studies for the tests.
#pragma once

#include <string>

#include "headlens/error.hpp"
#include "headlens/study.hpp"
#include "io/files.hpp"
#include "study/study_file.hpp"

namespace headlens::test {

// Ten cells of a few milliseconds.
inline const std::string tiny_text = R"(name = "tiny"
command = "fit"
seeds = [1, 2]
record = ["nmse", "mse", "fit-seconds"]
[fixed]
dim = 3
keys = 3
test-samples = 20
[grid]
samples = [5, 10, 20, 30, 40]
[variants.model]
A = {model = "rfa", heads = 5}
)";

inline Study tiny() { return parse_study(tiny_text, "tiny.toml"); }

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

inline Execution one_thread() {
  Execution execution;
  execution.threads = 1;
  execution.max_memory_bytes = std::uint64_t{1} << 30;
  return execution;
}

}  // namespace headlens::test
