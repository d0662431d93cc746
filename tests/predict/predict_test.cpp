// Prediction from a file in blocks: the bytes of prediction from memory, on any number of threads.
#include <gtest/gtest.h>

#include <cmath>

#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "io/files.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using namespace reference;

class PredictTest : public test::FolderTest {
 protected:
  // Predictions, scores and errors of the file, against those of the sets in memory.
  void expect_same(const LabelledSets& data, const FitOptions& options) {
    const Model model = fit(data, options, {}).model;
    const auto path = folder / "data.npz";
    save_sets(path, data);
    const DataLayout layout = data.sets.is_sequence() ? DataLayout::sequence : DataLayout::sets;
    for (const int threads : {1, 3}) {
      const Execution execution{.threads = threads};
      SetReader a(path, layout, Labels::ignored, execution), b(path, layout, Labels::ignored, execution),
          c(path, layout, Labels::needed, execution);
      test::expect_same(predict(model, a, execution), predict(model, data.sets, {}));
      test::expect_same(predict_scores(model, b, execution), predict_scores(model, data.sets, {}));
      const Evaluation found = evaluate(model, c, execution), wanted = evaluate(model, data, {});
      EXPECT_EQ(found.count, wanted.count);
      EXPECT_EQ(found.accuracy, wanted.accuracy);
      EXPECT_NEAR(found.mse, wanted.mse, 1e-13 * wanted.mse);
      ASSERT_EQ(found.nmse.has_value(), wanted.nmse.has_value());
      if (wanted.nmse) {
        EXPECT_NEAR(*found.nmse, *wanted.nmse, 1e-12 * *wanted.nmse);
      }
    }
  }
};

FitOptions small(FeatureOptions features, Loss loss = Loss::squared) {
  FitOptions options{.features = features, .loss = loss, .ridge = 1e-2};
  if (features.infinite()) options.centres = 40;
  return options;
}

// Several blocks each, the last one short. Sizes vary so that blocks differ in their largest set.
TEST_F(PredictTest, BlocksOfAFileChangeNothing) {
  const LabelledSets ragged = labelled(ragged_sets<double>(500, 30, 3, 1), 2);
  const LabelledSets equal = labelled(equal_sets<double>(500, 4, 3, 1), 2, 2);
  for (const Index heads : {Index{20}, kInfiniteHeads}) {
    expect_same(ragged, small({.heads = heads}));
    expect_same(equal, small({.heads = heads}));
    expect_same(equal, small({.kind = ModelKind::mlp, .heads = heads}));
  }
  expect_same(ragged, small({.heads = 20, .score = Score::softmax, .positions = Positions::sinusoidal}));
  const Sets sequences = Sets::from_sequence(normal_array<double>({150, 5, 3}, 4));
  LabelledSets labels = labelled(sequences, 5);
  labels.targets.shape = {150, 5};
  expect_same(labels, small({.heads = 20}));
  expect_same(labels, small({.kind = ModelKind::mlp, .heads = 300}));
}

TEST_F(PredictTest, LabelsToo) {
  LabelledSets data = labelled(ragged_sets<double>(300, 6, 3, 1), 2);
  for (double& y : data.targets.values) y = y > 0.5 ? 2 : y > 0 ? 1 : 0;
  data.targets.integer = true;
  expect_same(data, small({.heads = 20}, Loss::hinge));
}

TEST_F(PredictTest, SinglePrecisionToo) {
  const LabelledSets data = labelled(ragged_sets<float>(300, 6, 3, 1), 2);
  // y is rounded when it is saved with float32 tokens.
  LabelledSets rounded = data;
  for (double& y : rounded.targets.values) y = static_cast<float>(y);
  expect_same(rounded, small({.heads = 20, .precision = Precision::f32}));
}

// y around 1e8 with a first value far away: the variance of shifted sums would lose 6 digits.
TEST_F(PredictTest, VarianceOfBlocksLosesNothing) {
  LabelledSets data = labelled(equal_sets<double>(700, 2, 2, 1), 2);
  for (double& y : data.targets.values) y += 1e8;
  data.targets.values[0] = -1e9;
  expect_same(data, small({.heads = 5}));
  const Model model = fit(data, small({.heads = 5}), {}).model;
  long double mean = 0, variance = 0;
  for (const double y : data.targets.values) mean += y / 700.0L;
  for (const double y : data.targets.values) variance += (y - mean) * (y - mean) / 700.0L;
  const Evaluation found = evaluate(model, data, {});
  EXPECT_NEAR(found.mse / *found.nmse, static_cast<double>(variance), 1e-12 * static_cast<double>(variance));
}

TEST_F(PredictTest, MemoryIsThatOfTheBlocks) {
  const LabelledSets data = labelled(equal_sets<double>(30000, 8, 4, 1), 2);  // 8.9 MB
  save_sets(folder / "data.npz", data);
  const Model model = fit(labelled(equal_sets<double>(100, 8, 4, 1), 2), small({.heads = 20}), {}).model;
  Execution execution{.threads = 8, .max_memory_bytes = 1 << 20};
  SetReader reader(folder / "data.npz", DataLayout::sets, Labels::ignored, execution);
  test::expect_same(predict(model, reader, execution), predict(model, data.sets, {}));
  EXPECT_THROW((void)predict(model, data.sets, execution), Error);
  execution.max_memory_bytes = 100 << 10;
  SetReader again(folder / "data.npz", DataLayout::sets, Labels::ignored, execution);
  EXPECT_THROW((void)predict(model, again, execution), Error);
}

TEST_F(PredictTest, CancelledBetweenBlocks) {
  const LabelledSets data = labelled(equal_sets<double>(3000, 2, 2, 1), 2);
  save_sets(folder / "data.npz", data);
  const Model model = fit(data, small({.heads = 5}), {}).model;
  int asked = 0;
  Execution execution{.threads = 1};  // with two, the one that is asked may get no block at all
  execution.cancelled = [&] { return ++asked > 3; };
  SetReader reader(folder / "data.npz", DataLayout::sets, Labels::ignored, {});
  test::expect_error([&] { (void)predict(model, reader, execution); }, {"interrupted"},
                     ErrorCode::interrupted);
  EXPECT_GT(reader.remaining(), 0);
}

}  // namespace
}  // namespace headlens
