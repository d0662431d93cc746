#include "recover/outliers.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "comm/communicator.hpp"
#include "recover/factors/report.hpp"

namespace headlens::recovery {
namespace {

constexpr double kFar = 6;             // robust deviations
constexpr double kDeviation = 1.4826;  // of a normal variable, per median of its size
constexpr double kRounding = 1e-9;     // of the size of the labels: nothing nearer is an outlier
constexpr double kMost = 0.05;         // share of labels that may be outliers
constexpr double kTail = 0.1;          // share of labels that may be far: where more are, far is no exception
constexpr double kCarry = 0.5;         // share of what is left that outliers have, or they hide nothing
constexpr double kExplains = 0.5;      // train error above which a fit says nothing about single labels
constexpr int kRounds = 8;

struct Left {
  std::vector<double> sizes;  // |Y - F| of every label; 0 where there is none
  double labels = 0;          // number of them
  double scale = 0;           // median of |Y|
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of the labels alone where no fit explains them: what is left is then the distance from the median of the
// output.
std::vector<double> predictions(const Examples& examples, const Recovery& found, const Execution& execution) {
  const Index e = examples.outputs(), size = examples.y.size();
  std::vector<double> out(static_cast<std::size_t>(size));
  if (found.best && found.certificate.train_error < kExplains) {
    const Array f = apply_layer(*found.best, Tokens{examples.x, examples.lengths}, execution);
    std::copy_n(f.data<double>(), size, out.begin());
    return out;
  }
  for (Index j = 0; j < e; ++j) {
    std::vector<double> values;
    for (Index i = j; i < size; i += e) values.push_back(examples.y.data<double>()[i]);
    const double middle = median(std::move(values));
    for (Index i = j; i < size; i += e) out[static_cast<std::size_t>(i)] = middle;
  }
  return out;
}

bool is_label(const Examples& examples, Index i) {
  const Index row = i / examples.outputs();
  const bool padded =
      !examples.lengths.empty() &&
      row % examples.tokens() >= examples.lengths[static_cast<std::size_t>(row / examples.tokens())];
  return !padded && (examples.seen.size() == 0 || examples.seen.data<double>()[i] != 0);
}

Left left_by(const Examples& examples, const Recovery& found, const Execution& execution) {
  Left out;
  const std::vector<double> f = predictions(examples, found, execution);
  out.sizes.assign(f.size(), 0.0);
  std::vector<double> labels;
  for (Index i = 0; i < examples.y.size(); ++i) {
    if (!is_label(examples, i)) continue;
    const double y = examples.y.data<double>()[i];
    out.sizes[static_cast<std::size_t>(i)] = std::abs(y - f[static_cast<std::size_t>(i)]);
    labels.push_back(std::abs(y));
  }
  out.labels = static_cast<double>(labels.size());
  out.scale = median(std::move(labels));
  return out;
}

struct Outliers {
  std::vector<Index> labels;  // in order
  bool all = true;            // no more than the share that outliers may have
};

// The labels that are far from what most leave: none where no label stands out, and the farthest where there
// are too many. Labels stand out where
//
//   - they have more than half of all that is left (kCarry), or they hide nothing, and
//   - at most a tenth of the labels is far (kTail). What a wrong model leaves may have long tails: of the
//   cube
//     of a normal variable 16% are beyond six robust deviations. Wrong labels are few beside right ones.
//
// A fit that outliers still pull at leaves some labels far that are right; such labels are missed for one
// round only.
Outliers far_labels(const Examples& examples, const Left& left) {
  std::vector<double> sizes;
  for (Index i = 0; i < examples.y.size(); ++i)
    if (is_label(examples, i)) sizes.push_back(left.sizes[static_cast<std::size_t>(i)]);
  const double far = std::max(kFar * kDeviation * median(std::move(sizes)), kRounding * left.scale);
  Outliers out;
  double all = 0, theirs = 0;
  for (Index i = 0; i < examples.y.size(); ++i) {
    const double size = left.sizes[static_cast<std::size_t>(i)];
    all += size * size;
    if (!(size > far)) continue;
    theirs += size * size;
    out.labels.push_back(i);
  }
  if (!(theirs > kCarry * all) || static_cast<double>(out.labels.size()) > kTail * left.labels) return {};
  const auto most = static_cast<std::size_t>(kMost * left.labels);
  if (out.labels.size() <= most) return out;
  out.all = false;
  std::stable_sort(out.labels.begin(), out.labels.end(), [&](Index a, Index b) {
    return left.sizes[static_cast<std::size_t>(a)] > left.sizes[static_cast<std::size_t>(b)];
  });
  out.labels.resize(most);
  std::sort(out.labels.begin(), out.labels.end());
  return out;
}

Examples without(const Examples& examples, const std::vector<Index>& outliers) {
  Examples out{examples.x, Array(DType::f64, examples.y.shape()), examples.lengths,
               Array(DType::f64, examples.y.shape())};
  const Index size = examples.y.size();
  double *y = out.y.data<double>(), *seen = out.seen.data<double>();
  std::copy_n(examples.y.data<double>(), size, y);
  if (examples.seen.size() > 0)
    std::copy_n(examples.seen.data<double>(), size, seen);
  else
    std::fill_n(seen, size, 1.0);
  for (const Index i : outliers) y[i] = seen[i] = 0;
  return out;
}

void name_outliers(const Examples& examples, const std::vector<Index>& outliers, Certificate& certificate) {
  const Index k = examples.tokens(), e = examples.outputs();
  for (const Index i : outliers) certificate.outliers.push_back({i / e / k, i / e % k, i % e});
}

}  // namespace

Recovery recover_despite_outliers(const Examples& examples, const RecoverOptions& options,
                                  const Execution& execution, const Recoverer& recover) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto time_left = [&]() -> std::optional<double> {  // the same on all ranks
    if (!options.time_limit_seconds) return {};
    return comm::world().of_first(*options.time_limit_seconds - seconds());
  };
  Recovery first = recover(examples, options.time_limit_seconds);
  // Fewer labels help neither a layer that is there nor examples that are too few.
  const RecoveryStatus status = first.certificate.status;
  const bool may = options.method == RecoverMethod::varpro && !options.best_fit &&
                   status != RecoveryStatus::recovered && status != RecoveryStatus::needs_more_examples;
  const auto is_late = [&] {
    const std::optional<double> left = time_left();
    return left && *left <= 0;
  };
  // Looking for outliers takes the outputs of all examples, which of many takes long, too.
  if (!may || !first.best || is_late()) return first;
  Outliers outliers = far_labels(examples, left_by(examples, first, execution));
  Recovery latest;
  for (int round = 0; round < kRounds && !outliers.labels.empty(); ++round) {
    if (is_late()) return first;
    latest = recover(without(examples, outliers.labels), time_left());
    if (!latest.best) return first;
    Outliers next = far_labels(examples, left_by(examples, latest, execution));
    const bool same = next.labels == outliers.labels;
    outliers = std::move(next);
    if (latest.certificate.status == RecoveryStatus::recovered || same) break;
  }
  if (!outliers.all || outliers.labels.empty() || !is_certified(latest.certificate.status)) return first;
  latest.certificate.missing_labels = first.certificate.missing_labels;
  name_outliers(examples, outliers.labels, latest.certificate);
  latest.certificate.seconds = seconds();
  return latest;
}

}  // namespace headlens::recovery
