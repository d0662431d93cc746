// A program that uses the installed package through its public headers only.
#include <headlens/fit.hpp>
#include <headlens/tasks.hpp>

#include <cstdio>

int main() {
  headlens::TaskOptions task{.dim = 4, .min_keys = 3, .max_keys = 3, .count = 200};
  headlens::FitOptions options;
  options.features.heads = 20;
  const headlens::LabelledSets data = headlens::generate(task, {});
  const headlens::Fit result = headlens::fit(data, options, {});
  const headlens::Evaluation error = headlens::evaluate(result.model, data, {});
  std::printf("nmse %.3g\n", error.nmse.value_or(-1));
  return result.report.status == headlens::FitStatus::solved && *error.nmse < 0.1 ? 0 : 1;
}
