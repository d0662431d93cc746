// When a search that failed is repeated without labels that stand out. The searches are counted, not run.
#include "recover/outliers.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"

namespace headlens::recovery {
namespace {

// Labels value(normal variable), of examples whose tokens do not matter here.
template <class Value>
Examples labels_of(Value&& value) {
  Examples out{Array(DType::f64, {200, 2, 1}), Array(DType::f64, {200, 2, 5})};
  Stream stream(3, "labels");
  for (Index i = 0; i < out.y.size(); ++i) out.y.data<double>()[i] = value(i, stream.normal());
  return out;
}

// Searches until one ends recovered, all of which end as `status` while labels above 50 are seen.
int searches(const Examples& examples, RecoveryStatus status) {
  int count = 0;
  const Recoverer search = [&](const Examples& given, std::optional<double>) {
    ++count;
    double largest = 0;
    for (Index i = 0; i < given.y.size(); ++i)
      largest = std::max(largest, std::abs(given.y.data<double>()[i]));
    Recovery out;
    out.best = AttentionLayer{};
    out.certificate.train_error = 0.9;  // nothing is explained: labels are compared with each other
    out.certificate.status = largest > 50 ? status : RecoveryStatus::recovered;
    return out;
  };
  (void)recover_despite_outliers(examples, {}, {}, search);
  return count;
}

constexpr RecoveryStatus kFailed = RecoveryStatus::not_identified;

TEST(Outliers, LabelsThatStandOutAreLeftOut) {
  const Examples wrong = labels_of([](Index i, double z) { return i % 100 == 7 ? 1000 * z : z; });
  EXPECT_EQ(searches(wrong, kFailed), 2);
}

TEST(Outliers, FewExamplesAreNotMadeFewer) {
  const Examples wrong = labels_of([](Index i, double z) { return i % 100 == 7 ? 1000 * z : z; });
  EXPECT_EQ(searches(wrong, RecoveryStatus::needs_more_examples), 1);
}

// Long tails: normal labels have none that is far, their cubes have 16%, and one label in seven may be wrong.
TEST(Outliers, NoLabelStandsOut) {
  EXPECT_EQ(searches(labels_of([](Index, double z) { return 100 * z; }), kFailed), 1);
  EXPECT_EQ(searches(labels_of([](Index, double z) { return 100 * z * z * z; }), kFailed), 1);
  EXPECT_EQ(searches(labels_of([](Index i, double z) { return i % 7 == 0 ? 1e4 * z : 100 * z; }), kFailed),
            1);
}

}  // namespace
}  // namespace headlens::recovery
