// Layers in factors: files and back.
#include <gtest/gtest.h>

#include <filesystem>

#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/layer.hpp"

namespace headlens {
namespace {

TEST(FactoredLayer, IsTheSameLayer) {
  for (const Index rank : {1, 2, 5}) {
    const AttentionLayer layer = draw_teacher({.heads = 3, .dim = 5, .outputs = 4, .rank = rank, .seed = 3});
    const FactoredLayer factors = factors_of(layer);
    EXPECT_EQ(factors.q.shape(), (std::vector<Index>{3, 5, rank}));
    EXPECT_EQ(factors.o.shape(), (std::vector<Index>{3, std::min<Index>(rank, 4), 4}));
    EXPECT_LT(compare_layers(multiply_out(factors), layer).worst_error, 1e-14);
  }
}

// Against the comparison of dense layers: other factors of the same heads in another order, one head split in
// two, an absent head, and errors of all sizes down to rounding.
TEST(FactoredLayer, IsComparedWithoutTheta) {
  for (const Index rank : {1, 3, 8}) {  // 8: [Q, -Q'] is wider than high
    const AttentionLayer truth = draw_teacher({.heads = 4, .dim = 12, .outputs = 7, .rank = rank, .seed = 6});
    for (const double error : {0.0, 1e-13, 1e-9, 1e-3, 2.0}) {
      AttentionLayer other = truth;
      other.theta = Array::from(truth.theta.to_doubles(), truth.theta.shape());
      other.w = Array::from(truth.w.to_doubles(), truth.w.shape());
      const Index size = 12 * 12;
      std::swap_ranges(other.theta.data<double>(), other.theta.data<double>() + size,
                       other.theta.data<double>() + 2 * size);
      std::swap_ranges(other.w.data<double>(), other.w.data<double>() + 84, other.w.data<double>() + 2 * 84);
      for (Index i = 0; i < size; ++i) other.theta.data<double>()[i] *= 1 + error;
      for (Index i = 0; i < 84; ++i) other.w.data<double>()[84 + i] *= 1 - error / 3;
      const Comparison dense = compare_layers(other, truth),
                       factored = compare_layers(factors_of(other), factors_of(truth));
      ASSERT_EQ(factored.matches.size(), dense.matches.size());
      for (std::size_t i = 0; i < dense.matches.size(); ++i) {
        EXPECT_EQ(factored.matches[i].a, dense.matches[i].a);
        EXPECT_EQ(factored.matches[i].b, dense.matches[i].b);
        // factors_of() leaves out singular values below 1e-13.
        EXPECT_NEAR(factored.matches[i].theta_error, dense.matches[i].theta_error, 1e-13);
        EXPECT_NEAR(factored.matches[i].w_error, dense.matches[i].w_error, 1e-13);
      }
      EXPECT_NEAR(factored.worst_error, dense.worst_error, 1e-13);
    }
  }
}

TEST(FactoredLayer, EqualHeadsAreComparedAsOne) {
  const FactoredLayer truth = factors_of(draw_teacher({.heads = 2, .dim = 9, .rank = 2, .seed = 7}));
  const auto thrice = [](const Array& a, double first, double second,
                         double third) {  // head 0, head 1, head 0 again
    const Index size = a.dim(1) * a.dim(2);
    std::vector<double> out;
    for (const auto& [head, factor] : {std::pair{0, first}, {1, second}, {0, third}})
      for (Index i = 0; i < size; ++i) out.push_back(factor * a.at(head * size + i));
    return Array::from(out, {3, a.dim(1), a.dim(2)});
  };
  const FactoredLayer split{thrice(truth.q, 1, 1, 2), thrice(truth.k, 1, 1, 0.5), thrice(truth.v, 1, 1, 1),
                            thrice(truth.o, 0.3, 1, 0.7)};
  EXPECT_LT(compare_layers(split, truth).worst_error, 1e-14);
  const FactoredLayer cancelled{thrice(truth.q, 1, 1, 2), thrice(truth.k, 1, 1, 0.5),
                                thrice(truth.v, 1, 1, 1), thrice(truth.o, 0.3, 1, -0.3)};
  EXPECT_EQ(compare_layers(cancelled, truth).heads_a, 1);
  // Beyond the range of squares.
  const FactoredLayer huge{thrice(truth.q, 1e170, 1, 2e170), thrice(truth.k, 1, 1, 0.5),
                           thrice(truth.v, 1, 1, 1), thrice(truth.o, 0.3, 1, 0.7)};
  EXPECT_LT(compare_layers(huge, huge).worst_error, 1e-14);
}

TEST(FactoredLayer, FilesHoldEitherForm) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "factored_layer.npz";
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 6, .rank = 2, .seed = 4});
  save_layer(path, factors_of(layer));
  EXPECT_EQ(read_npz(path, 1u << 30).count("Theta"), 0u);
  EXPECT_LT(compare_layers(load_layer(path, {}), layer).worst_error, 1e-14);
  std::filesystem::remove(path);
}

TEST(FactoredLayer, ShapesThatDoNotFitAreRefused) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "factored_bad.npz";
  const FactoredLayer good = factors_of(draw_teacher({.heads = 2, .dim = 6, .rank = 2, .seed = 5}));
  const auto refused = [&](FactoredLayer bad, const std::string& words) {
    save_layer(path, bad);
    try {
      (void)load_layer(path, {});
      ADD_FAILURE() << "accepted: " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  FactoredLayer bad = good;
  bad.k = Array(DType::f64, {2, 6, 3});
  std::fill_n(bad.k.data<double>(), bad.k.size(), 1.0);
  refused(bad, "K has shape");
  bad = good;
  bad.v = Array::from(std::vector<double>(2 * 5 * 2, 1.0), {2, 5, 2});
  refused(bad, "V has shape");
  bad = good;
  bad.o = Array::from(std::vector<double>(2 * 3 * 6, 1.0), {2, 3, 6});
  refused(bad, "O has shape");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace headlens
