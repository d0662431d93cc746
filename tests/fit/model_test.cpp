// Prediction, classifiers, sequences and model files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "reference/features.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using namespace reference;
using testing::HasSubstr;

class ModelFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("headlens-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

FitOptions small_options() {
  FitOptions options;
  options.features.heads = 12;
  options.ridge = 1e-2;
  return options;
}

LabelledSets classes(Index count, Index kinds) {
  LabelledSets data = labelled(equal_sets<double>(count, 3, 2, 7), 1);
  data.targets.integer = true;
  for (double& y : data.targets.values)
    y = 3 + 2 * std::fmod(std::floor(std::abs(y) * 2), static_cast<double>(kinds));
  return data;
}

TEST_F(ModelFile, RoundTripsEveryKind) {
  const LabelledSets data = labelled(equal_sets<double>(30, 3, 2, 7), 1, 2);
  for (const ModelKind kind : {ModelKind::rfa, ModelKind::brfa, ModelKind::mlp})
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      FitOptions options = small_options();
      options.features.kind = kind;
      options.features.precision = precision;
      const Model model = fit(data, options, {}).model;
      save_model(folder_ / "m", model);
      const Model again = load_model(folder_ / "m", {});
      EXPECT_EQ(predict(model, data.sets, {}).to_doubles(), predict(again, data.sets, {}).to_doubles());
      save_model(folder_ / "n", again);
      std::ifstream a(folder_ / "m"), b(folder_ / "n");
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(a), {}),
                std::string(std::istreambuf_iterator<char>(b), {}));
    }
}

TEST_F(ModelFile, RoundTripsInfinitelyManyHeads) {
  const LabelledSets ragged = labelled(ragged_sets<double>(30, 5, 2, 7), 1, 2);
  const LabelledSets equal = labelled(equal_sets<double>(30, 3, 2, 7), 1, 2);
  for (const ModelKind kind : {ModelKind::rfa, ModelKind::brfa, ModelKind::mlp})
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      const LabelledSets& data = kind == ModelKind::mlp ? equal : ragged;
      FitOptions options = small_options();
      options.features.kind = kind;
      options.features.heads = kInfiniteHeads;
      options.features.precision = precision;
      const Model model = fit(data, options, {}).model;
      save_model(folder_ / "m", model);
      const Model again = load_model(folder_ / "m", {});
      EXPECT_TRUE(again.features.infinite());
      EXPECT_EQ(predict(model, data.sets, {}).to_doubles(), predict(again, data.sets, {}).to_doubles());
      save_model(folder_ / "n", again);
      std::ifstream a(folder_ / "m"), b(folder_ / "n");
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(a), {}),
                std::string(std::istreambuf_iterator<char>(b), {}));
    }
}

TEST_F(ModelFile, RefusesWhatIsNotAModel) {
  const Model model = fit(labelled(equal_sets<double>(30, 3, 2, 7), 1), small_options(), {}).model;
  const auto broken = [&](auto&& change) -> std::string {
    Model copy = model;
    change(copy);
    save_model(folder_ / "m", copy);
    try {
      (void)load_model(folder_ / "m", {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(broken([](Model& m) { m.values = Array(DType::f64, {12, 3, 4}); }), HasSubstr("values"));
  EXPECT_THAT(broken([](Model& m) { m.dim = 5; }), HasSubstr("heads"));
  EXPECT_THAT(broken([](Model& m) { m.features.heads = Index{1} << 39; }), HasSubstr("impossible"));
  EXPECT_THAT(broken([](Model& m) { m.classes = {1, 2, 3}; }), HasSubstr("classes"));
  EXPECT_THAT(broken([](Model& m) {
                m.values = Array(DType::f64, m.values.shape());
                m.values.data<double>()[0] = NAN;
              }),
              HasSubstr("not finite"));
}

TEST_F(ModelFile, PredictionsAreTheDoubleLoop) {
  const LabelledSets data = labelled(ragged_sets<double>(25, 5, 3, 2), 1, 2);
  for (const Score score : {Score::relu, Score::softmax, Score::exp}) {
    FitOptions options = small_options();
    options.features.score = score;
    options.features.weight_scale = 0.3;
    const Model model = fit(data, options, {}).model;
    const Array f = predict(model, data.sets, {});
    for (Index s = 0; s < 25; ++s)
      for (Index c = 0; c < 2; ++c) {
        Real want = model.intercept.at(c), scale = std::abs(want);
        for (Index m = 0; m < 12; ++m) {
          const auto phi = head_features(plain_set(data.sets, s, Positions::none), model.heads, m, score);
          for (Index j = 0; j < 4; ++j) {
            const Real term = phi[static_cast<std::size_t>(j)] * model.values.at((m * 4 + j) * 2 + c);
            want += term;
            scale += std::abs(term);
          }
        }
        EXPECT_NEAR(f.at(s * 2 + c), static_cast<double>(want), 1e-13 * static_cast<double>(scale));
      }
  }
}

TEST(Classifier, LearnsLabelsAndReportsThem) {
  for (const Loss loss : {Loss::logistic, Loss::hinge})
    for (const Index kinds : {2, 3}) {
      const LabelledSets data = classes(80, kinds);
      FitOptions options = small_options();
      options.features.heads = 60;
      options.loss = loss;
      options.ridge = 1e-4;
      const Fit result = fit(data, options, {});
      EXPECT_EQ(result.report.status, FitStatus::solved);
      EXPECT_EQ(result.model.classes.size(), static_cast<std::size_t>(kinds));
      EXPECT_EQ(result.model.outputs, kinds == 2 ? 1 : kinds);
      const Array labels = predict(result.model, data.sets, {});
      EXPECT_EQ(labels.dtype(), DType::i64);
      for (const double label : labels.to_doubles()) EXPECT_EQ(std::fmod(label, 2), 1);  // 3, 5, 7
      EXPECT_GT(*evaluate(result.model, data, {}).accuracy, 0.9);
    }
}

TEST(Classifier, RefusesOneClassAndFractions) {
  LabelledSets data = classes(20, 2);
  FitOptions options = small_options();
  options.loss = Loss::logistic;
  LabelledSets one = data;
  std::fill(one.targets.values.begin(), one.targets.values.end(), 1.0);
  EXPECT_THROW((void)fit(one, options, {}), Error);
  data.targets.values[3] = 0.5;
  EXPECT_THROW((void)fit(data, options, {}), Error);
  options.ridge = 0;
  EXPECT_THROW((void)fit(classes(20, 2), options, {}), Error);
}

TEST(Classifier, ChoosesARidgeByFolds) {
  const LabelledSets data = classes(60, 2);
  FitOptions options = small_options();
  options.loss = Loss::logistic;
  options.ridge.reset();
  const Fit result = fit(data, options, {});
  EXPECT_EQ(result.report.ridge_rule, "5-fold");
  EXPECT_GT(result.report.trials.size(), 3U);
  EXPECT_GT(result.report.ridge, 0);
}

TEST(NormBall, HoldsInTheModel) {
  const LabelledSets data = labelled(equal_sets<double>(40, 3, 2, 7), 1);
  for (const Loss loss : {Loss::squared, Loss::huber}) {
    FitOptions options = small_options();
    options.ridge.reset();
    options.loss = loss;
    options.norm_ball = NormBall{0.8, 0.2};
    const Fit result = fit(data, options, {});
    EXPECT_EQ(result.report.status, FitStatus::solved);
    double sum = 0, squares = 0;
    for (Index m = 0; m < 12; ++m) {
      double square = 0;
      for (Index j = 0; j < 3; ++j) square += std::pow(result.model.values.at(m * 3 + j), 2);
      sum += std::sqrt(square);
      squares += square;
    }
    EXPECT_LE(sum, 0.8 * (1 + 1e-9));
    EXPECT_LE(squares, 0.2 * (1 + 1e-9));
    EXPECT_GT(std::max(sum / 0.8, squares / 0.2), 0.99);  // the ball binds here
  }
}

TEST(Huber, IgnoresAnOutlierThatSquaresChase) {
  LabelledSets data = labelled(equal_sets<double>(60, 3, 2, 7), 1);
  const LabelledSets clean = data;
  data.targets.values[5] += 1000;
  FitOptions options = small_options();
  const double squared = evaluate(fit(data, options, {}).model, clean, {}).mse;
  options.loss = Loss::huber;
  const Fit robust = fit(data, options, {});
  EXPECT_EQ(robust.report.status, FitStatus::solved);
  EXPECT_LT(evaluate(robust.model, clean, {}).mse, squared / 10);
}

TEST(Sequence, IsPermutationEquivariant) {
  const Array tokens = normal_array<double>({6, 5, 3}, 3);
  LabelledSets data{Sets::from_sequence(tokens), {{}, 1, false, {6, 5}}};
  Stream stream(1, "y");
  for (int i = 0; i < 30; ++i) data.targets.values.push_back(stream.normal());
  const Model model = fit(data, small_options(), {}).model;
  EXPECT_TRUE(model.sequence);
  const Array f = predict(model, data.sets, {});
  EXPECT_EQ(f.shape(), (std::vector<Index>{6, 5}));
  const Index order[] = {3, 0, 4, 2, 1};
  Array shuffled(DType::f64, {6, 5, 3});
  for (Index s = 0; s < 6; ++s)
    for (Index t = 0; t < 5; ++t)
      for (Index j = 0; j < 3; ++j)
        shuffled.data<double>()[(s * 5 + t) * 3 + j] = tokens.at((s * 5 + order[t]) * 3 + j);
  const Array g = predict(model, Sets::from_sequence(shuffled), {});
  // The keys are summed in another order: equal up to the rounding of a sum.
  for (Index s = 0; s < 6; ++s)
    for (Index t = 0; t < 5; ++t) EXPECT_NEAR(g.at(s * 5 + t), f.at(s * 5 + order[t]), 1e-12);
}

TEST(Predict, RefusesDataOfAnotherShape) {
  const Model model = fit(labelled(equal_sets<double>(30, 3, 2, 7), 1), small_options(), {}).model;
  EXPECT_THROW((void)predict(model, equal_sets<double>(5, 3, 4, 1), {}), Error);
  EXPECT_THROW((void)predict(model, Sets::from_sequence(normal_array<double>({2, 3, 2}, 1)), {}), Error);
  EXPECT_NO_THROW((void)predict(model, equal_sets<double>(5, 9, 2, 1), {}));  // any number of keys
}

TEST(Fit, CanBeCancelled) {
  Execution execution;
  execution.cancelled = [] { return true; };
  EXPECT_THROW((void)fit(labelled(equal_sets<double>(30, 3, 2, 7), 1), small_options(), execution), Error);
}

// scores = features * values + intercept, with the features in the order of the model's values.
void expect_features_explain_scores(const Model& model, const Sets& sets, double tolerance) {
  const Array features = compute_features(model, sets, {}), scores = predict_scores(model, sets, {});
  const Index columns = features.dim(1), q = model.outputs;
  ASSERT_EQ(features.dim(0), sets.count());
  ASSERT_EQ(columns * q, model.values.size());
  EXPECT_EQ(features.dtype(), model.features.precision == Precision::f32 ? DType::f32 : DType::f64);
  for (Index i = 0; i < sets.count(); ++i)
    for (Index c = 0; c < q; ++c) {
      double sum = model.intercept.at(c), size = std::abs(sum);
      for (Index k = 0; k < columns; ++k) {
        const double term = features.at(i * columns + k) * model.values.at(k * q + c);
        sum += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(scores.at(i * q + c), sum, tolerance * size);
    }
}

TEST(Features, AreWhatTheValuesRead) {
  const double eps = std::numeric_limits<double>::epsilon();
  const LabelledSets equal = labelled(equal_sets<double>(30, 3, 2, 7), 1, 2),
                     ragged = labelled(ragged_sets<double>(30, 5, 2, 7), 1);
  for (const Precision precision : {Precision::f32, Precision::f64})
    for (const Index heads : {Index{12}, kInfiniteHeads})
      for (const ModelKind kind : {ModelKind::rfa, ModelKind::mlp}) {
        FitOptions options = small_options();
        options.features.kind = kind;
        options.features.precision = precision;
        options.features.heads = heads;
        options.features.positions = Positions::sinusoidal;
        // The kernel is rounded to float32 in the features, and not in the scores.
        const double tolerance = precision == Precision::f32 ? 1e-6 : 40 * eps;
        expect_features_explain_scores(fit(equal, options, {}).model, equal.sets, tolerance);
        if (kind == ModelKind::mlp) continue;
        const Model model = fit(ragged, options, {}).model;
        expect_features_explain_scores(model, ragged.sets, tolerance);
        EXPECT_THROW((void)compute_features(model, equal_sets<double>(3, 3, 4, 7), {}), Error);
      }
}

}  // namespace
}  // namespace headlens
