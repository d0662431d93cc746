// Phi over ranks, on threads, against Phi of one process: its products, its Gram matrix on both sides with
// everything that is solved with it, and the kernel of infinitely many heads. Sets of equal and of different
// sizes, in numbers that no number of ranks divides.
#include <gtest/gtest.h>

#include "base/random.hpp"
#include "distributed/answers.hpp"
#include "distributed/sharded_backend.hpp"
#include "features/heads.hpp"
#include "reference/thread_ranks.hpp"

namespace headlens {
namespace {

using namespace answers;
using reference::on_ranks;
using reference::ThreadRanks;

constexpr double kSolved = 1e-10;  // of solves with Gram matrices of condition 1e4
constexpr Index kDim = 3;

Matrix<double> normal(Index rows, Index cols, const char* name) {
  Matrix<double> out(rows, cols);
  Stream stream(3, name);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = stream.normal();
  return out;
}

// Sets [first, last) of a family that depends on nothing but its seed.
struct Family {
  Index count;
  bool ragged;

  Index keys_of(Index set) const { return ragged ? 2 + set % 4 : 4; }
  Sets part(Index first, Index last) const {
    std::vector<double> query, keys;
    std::vector<std::int64_t> offsets{0};
    for (Index set = first; set < last; ++set) {
      Stream stream(11, "set", static_cast<std::uint64_t>(set));
      for (Index q = 0; q < kDim; ++q) query.push_back(stream.normal());
      for (Index i = 0; i < keys_of(set) * kDim; ++i) keys.push_back(stream.normal());
      offsets.push_back(offsets.back() + keys_of(set));
    }
    const Array all_keys =
        ragged ? Array::from(keys, {offsets.back(), kDim}) : Array::from(keys, {last - first, 4, kDim});
    const Array queries = Array::from(query, {last - first, kDim});
    Sets out = ragged ? Sets::from_ragged(queries, all_keys, offsets) : Sets::from_arrays(queries, all_keys);
    out.set_whole({first, count, keys_of(0), ragged ? 5 : 4, !ragged});
    return out;
  }
  Sets of_rank(comm::Communicator& ranks) const {
    return part(count * ranks.rank() / ranks.size(), count * (ranks.rank() + 1) / ranks.size());
  }
};

const Family kFamilies[] = {{37, false}, {41, true}};

Matrix<double> row_of(const std::vector<double>& values) {
  Matrix<double> out(1, static_cast<Index>(values.size()));
  std::copy(values.begin(), values.end(), out.data());
  return out;
}

// Everything that is asked of a Gram matrix, which answers one question each.
using MakeGram = std::function<std::unique_ptr<backend::Gram>()>;
std::vector<Matrix<double>> gram_answers(const MakeGram& make, Index n) {
  const auto whole = make();
  const backend::Gram& gram = *whole;
  const Matrix<double> right = normal(gram.size(), 2, "right side");
  const double unit = gram.trace() / static_cast<double>(n);
  std::vector<Matrix<double>> out;
  out.push_back(row_of({gram.trace()}));
  Matrix<double> image(gram.size(), 2);
  gram.multiply(right, image);
  out.push_back(copy_of(image));
  const auto used = make();
  const auto factor = used->factor(1e-2 * unit);
  factor->solve(right, image);
  out.push_back(copy_of(image));
  const auto path_of = make();
  const auto path = path_of->shift_path();
  out.push_back(row_of(path->leave_one_out({unit, 1e-1 * unit, 1e-2 * unit})));
  path->factor(1e-1 * unit)->solve(right, image);
  out.push_back(copy_of(image));
  return out;
}

std::vector<Matrix<double>> answers(backend::Design& design, const Matrix<double>& targets) {
  const Index n = design.rows(), p = design.columns();
  const Matrix<double> v = normal(p, 2, "v"), r = normal(n, 2, "r");
  std::vector<Matrix<double>> out;
  out.push_back(row_of(design.means()));
  out.push_back(row_of({design.mean_square_row()}));
  out.push_back(design.forward(v, "forward"));
  out.push_back(design.adjoint(r, "adjoint"));
  out.push_back(design.outer_product(r, "outer"));
  std::vector<double> weights;
  for (Index i = 0; i < n; ++i) weights.push_back(1 + 0.1 * static_cast<double>(i % 7));
  out.push_back(design.inner_product(v, "inner", weights));
  backend::Residuals residuals = design.check(v, targets);
  out.push_back(row_of({residuals.squares}));
  out.push_back(std::move(residuals.gradient));
  out.push_back(std::move(residuals.product));
  for (const backend::Side side : {backend::Side::primal, backend::Side::dual}) {
    const MakeGram make = [&] { return design.gram({.side = side, .targets = targets}); };
    for (Matrix<double>& answer : gram_answers(make, n)) out.push_back(std::move(answer));
  }
  return out;
}

TEST(ShardedDesign, AgreesWithOneProcess) {
  const Execution run{.threads = 1};
  for (const Family& family : kFamilies)
    for (const bool centre : {true, false}) {
      FeatureOptions options;
      options.heads = 5;
      options = with_default_scales(options, kDim);
      const Array heads = draw_heads(options, kDim + 1, 0, 1);
      const Matrix<double> targets = normal(family.count, 2, "targets");
      const Sets all = family.part(0, family.count);
      const auto alone = processor().make_design({all, options, centre}, heads, {processor(), 1, run});
      const std::vector<Matrix<double>> expected = answers(*alone, targets);
      for (const int size : {2, 3, 4})
        on_ranks(size, [&](ThreadRanks& ranks) {
          const auto machine = distributed::make_sharded(processor(), ranks);
          const Sets mine = family.of_rank(ranks);
          const auto design = machine->make_design({mine, options, centre}, heads, {*machine, 1, run, ranks});
          expect_alike(answers(*design, targets), expected, kSolved,
                       join(family.ragged ? "ragged" : "equal", ", centre ", centre, ", ", size, " ranks"));
        });
    }
}

TEST(ShardedDesign, KernelsAgreeWithOneProcess) {
  const Execution run{.threads = 1};
  for (const Family& family : kFamilies)
    for (const bool centre : {true, false}) {
      FeatureOptions options;
      options.heads = kInfiniteHeads;
      options = with_default_scales(options, kDim);
      const Matrix<double> targets = normal(family.count, 2, "targets");
      const Sets all = family.part(0, family.count);
      const backend::KernelGram alone =
          processor().make_kernel_gram({all, options, centre}, targets, {processor(), 1, run});
      const std::vector<Matrix<double>> expected =
          gram_answers([&] { return alone.gram->copy(); }, family.count);
      for (const int size : {2, 3, 4})
        on_ranks(size, [&](ThreadRanks& ranks) {
          const auto machine = distributed::make_sharded(processor(), ranks);
          const Sets mine = family.of_rank(ranks);
          const backend::KernelGram kernel =
              machine->make_kernel_gram({mine, options, centre}, targets, {*machine, 1, run, ranks});
          EXPECT_LT(distance(row_of(kernel.means), row_of(alone.means)), kSolved);
          expect_alike(gram_answers([&] { return kernel.gram->copy(); }, family.count), expected, kSolved,
                       join(family.ragged ? "ragged" : "equal", ", centre ", centre, ", ", size, " ranks"));
        });
    }
}

// A rank gets the sets of its rows and of its columns, and no others.
TEST(ShardedDesign, KernelsMoveTheSetsThatThePageNames) {
  const Execution run{.threads = 1};
  const Family family{200, false};
  FeatureOptions options;
  options.heads = kInfiniteHeads;
  options = with_default_scales(options, kDim);
  const Matrix<double> targets = normal(family.count, 1, "targets");
  for (const int size : {4, 6, 9})
    on_ranks(size, [&](ThreadRanks& ranks) {
      const auto machine = distributed::make_sharded(processor(), ranks);
      const Sets mine = family.of_rank(ranks);
      const comm::GridPlace place = ranks.grid().place(family.count);
      Index wanted = 0;
      const Index first = family.count * ranks.rank() / size, last = family.count * (ranks.rank() + 1) / size;
      for (Index i = 0; i < family.count; ++i) {
        const bool here =
            i / place.block % place.rows == place.row || i / place.block % place.columns == place.column;
        wanted += here && (i < first || i >= last) ? 1 : 0;
      }
      machine->make_kernel_gram({mine, options, false}, targets, {*machine, 1, run, ranks});
      const std::uint64_t places = 16 * static_cast<std::uint64_t>(size), diagonal = 8 * 200;
      EXPECT_EQ(ranks.exchanged_bytes() - places - diagonal,
                static_cast<std::uint64_t>(wanted * 5 * kDim * 8));
      EXPECT_LE(wanted, family.count / place.rows + family.count / place.columns + 2 * place.block);
    });
}

}  // namespace
}  // namespace headlens
