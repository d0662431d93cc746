#include "fit/problem.hpp"

#include <algorithm>
#include <cmath>

#include "features/heads.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"

namespace headlens {
namespace training {
namespace {

bool is_classifier(Loss loss) { return loss == Loss::logistic || loss == Loss::hinge; }

std::vector<std::int64_t> find_classes(const LabelledSets& data, Loss loss) {
  const Targets& y = data.targets;
  require(y.outputs == 1, data.sets.name(), ": y has shape ", format_shape(y.shape), ", but ",
          option("loss", name(loss)), " needs one class label per set");
  std::vector<std::int64_t> classes;
  for (const double value : y.values) {
    require(value == std::floor(value) && std::abs(value) < 0x1p53, data.sets.name(), ": y holds ", value,
            ", but ", option("loss", name(loss)), " needs integer class labels");
    classes.push_back(static_cast<std::int64_t>(value));
  }
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  require(classes.size() >= 2, data.sets.name(), ": y holds only the class ", classes.front(), ", and ",
          option("loss", name(loss)), " needs at least two");
  return classes;
}

}  // namespace
}  // namespace training

std::string name(FitStatus status) {
  constexpr const char* names[] = {"solved", "stalled", "not_positive_definite", "digits_lost"};
  return names[static_cast<int>(status)];
}

void FitOptions::validate() const {
  features.validate();
  check_ranges(*this);
  const bool bare = loss != Loss::squared && !norm_ball && ridge && *ridge == 0;
  require(!bare, option("ridge"), ": 0 given, but ", option("loss", name(loss)),
          " needs a positive ridge or a ", option("norm-ball"), ": without either the minimum may not exist");
  require(!features.infinite() || !norm_ball, option("norm-ball"),
          ": its norms are those of single heads, and there are infinitely many");
  require(!centres || features.infinite(), option("centres"), ": only a model with infinitely many heads (",
          option("heads", "inf"), ") has centres");
  require(!centres || solver != Solver::dual, option("centres"),
          ": the dual solver takes all sets, not some");
  const bool squared_ridge = loss == Loss::squared && !norm_ball;
  require(solver == Solver::automatic || squared_ridge, option("solver"),
          ": only the squared loss without a norm ball has a choice "
          "of solvers");
  require(solver != Solver::iterative || !ridge || *ridge > 0, option("solver"),
          ": conjugate gradients need a positive ridge");
}

namespace training {

Problem pose(const LabelledSets& data, const FitOptions& options) {
  options.validate();
  const Sets& sets = data.sets;
  const Targets& y = data.targets;
  const bool mlp = options.features.kind == ModelKind::mlp;
  const Whole whole = sets.whole();
  require(!mlp || whole.equal_sizes, sets.name(), ": mlp needs sets of equal size, but set 0 has ",
          whole.first_keys, " keys and the largest has ", whole.max_keys, " (rfa and brfa take ragged sets)");
  if (!mlp) (void)mean_matrix(options.features, sets.dim());  // refuses a mean of another size
  Problem problem{sets,      options, Matrix<double>(whole.count, y.outputs),
                  y.outputs, {},      y.shape.size() > (sets.is_sequence() ? 2U : 1U)};
  problem.options.features = with_default_scales(options.features, whole.first_keys);
  std::copy(y.values.begin(), y.values.end(), problem.targets.data());
  if (!is_classifier(options.loss)) return problem;
  problem.classes = find_classes(data, options.loss);
  const auto count = static_cast<Index>(problem.classes.size());
  problem.outputs = count == 2 ? 1 : count;
  for (Index i = 0; i < whole.count; ++i) {
    const auto label = static_cast<std::int64_t>(y.values[static_cast<std::size_t>(i)]);
    const auto found = std::lower_bound(problem.classes.begin(), problem.classes.end(), label);
    problem.targets(i, 0) = static_cast<double>(found - problem.classes.begin());
  }
  return problem;
}

}  // namespace training
}  // namespace headlens
