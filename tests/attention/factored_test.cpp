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
