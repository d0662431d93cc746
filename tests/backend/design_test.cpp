// The contract of a design and its Gram matrix, on every back end, against the loops of the toy. Vectors of p
// entries are compared as the model stores them: the order of the columns is the back end's own.
#include <gtest/gtest.h>

#include "backend/toy_fit.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "reference/backends.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using reference::OnEveryBackend;

struct Features {
  Index sets, heads;
  ModelKind kind;
  bool centre;
  Precision precision;
  Sets data;
  FeatureOptions options;
  Array drawn;

  Features(Index n, Index m, ModelKind of, bool centred, Precision p)
      : sets(n),
        heads(m),
        kind(of),
        centre(centred),
        precision(p),
        data(reference::equal_sets<double>(n, 3, 4, 7)) {
    options.kind = of;
    options.heads = m;
    options.precision = p;
    options = with_default_scales(options, 3);
    drawn = draw_heads(options, 4, of == ModelKind::mlp ? 3 : 0, 1);
  }
  backend::FeatureSource source() const { return {data, options, centre}; }
  // Features are sums of some tens of products; sums over n or p of them follow.
  double unit() const {
    const double eps = precision == Precision::f32 ? 0x1p-24 : 0x1p-53;
    return 4 * eps * double(sets + 5 * heads);
  }
};

std::vector<Features> families() {
  std::vector<Features> out;
  for (const Precision precision : {Precision::f64, Precision::f32})
    for (const bool centre : {true, false}) {
      out.emplace_back(50, 7, ModelKind::rfa, centre, precision);
      out.emplace_back(30, 9, ModelKind::brfa, centre, precision);
      out.emplace_back(40, 30, ModelKind::mlp, centre, precision);
    }
  return out;
}

Matrix<double> normal(Index rows, Index cols) {
  Matrix<double> out(rows, cols);
  Stream stream(3, "right sides");
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = stream.normal();
  return out;
}

double norm(MatrixView<const double> a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) sum += a(i, j) * a(i, j);
  return std::sqrt(sum);
}

void expect_near(MatrixView<const double> found, MatrixView<const double> expected, double tolerance,
                 const char* what) {
  ASSERT_EQ(found.rows, expected.rows) << what;
  double worst = 0;
  for (Index i = 0; i < found.rows; ++i)
    for (Index j = 0; j < found.cols; ++j) worst = std::max(worst, std::abs(found(i, j) - expected(i, j)));
  EXPECT_LE(worst, tolerance) << what;
}

struct Pair {
  std::unique_ptr<backend::Design> found, plain;
  double size;  // |Phi| of what is not centred: rounding counts beside it

  Pair(const Features& f, const Execution& execution, toy::FitMachine& toy) {
    const backend::Context context = backend::context_of(execution);
    found = context.machine.make_design(f.source(), f.drawn, context);
    plain = toy.make_design(f.source(), f.drawn, context);
    const backend::FeatureSource raw{f.data, f.options, false};
    size = std::sqrt(toy.make_design(raw, f.drawn, context)->mean_square_row() * double(f.sets));
  }
};

using DesignContract = OnEveryBackend;

TEST_P(DesignContract, Products) {
  for (const Features& f : families())
    for (const bool hold : {false, true}) {
      toy::FitMachine toy;
      const Execution run = execution();
      Pair pair(f, run, toy);
      if (hold) pair.found->hold();
      const double unit = f.unit() * pair.size;
      const Matrix<double> r = normal(f.sets, 2);
      const Matrix<double> v = pair.found->adjoint(r, ""), w = pair.plain->adjoint(r, "");
      expect_near(pair.found->stored(v), pair.plain->stored(w), unit * norm(r), "adjoint");
      const double twice = 2 * unit * pair.size;
      expect_near(pair.found->outer_product(r, ""), pair.plain->outer_product(r, ""), twice * norm(r),
                  "outer");
      expect_near(pair.found->forward(v, ""), pair.plain->forward(w, ""), twice * norm(r), "forward");
      std::vector<double> weights(std::size_t(f.sets), 1.0);
      for (std::size_t i = 0; i < weights.size(); i += 3) weights[i] = 0;
      expect_near(pair.found->stored(pair.found->inner_product(v, "", weights)),
                  pair.plain->stored(pair.plain->inner_product(w, "", weights)),
                  3 * twice * pair.size * norm(r), "inner");
      EXPECT_NEAR(pair.found->mean_square_row(), pair.plain->mean_square_row(), twice * pair.size);
      const auto a = pair.found->check(v, r), b = pair.plain->check(w, r);
      expect_near(pair.found->stored(a.gradient), pair.plain->stored(b.gradient),
                  unit * (1 + 3 * pair.size * pair.size) * norm(r), "gradient");
      expect_near(pair.found->stored(a.product), pair.plain->stored(b.product), unit * norm(r), "product");
      const std::vector<double> means = pair.found->stored_means(), plain = pair.plain->stored_means();
      for (std::size_t j = 0; j < plain.size(); ++j) EXPECT_NEAR(means[j], plain[j], unit);
    }
}

TEST_P(DesignContract, GramMatrices) {
  for (const Features& f : families())
    for (const backend::Side side : {backend::Side::dual, backend::Side::primal}) {
      toy::FitMachine toy;
      const Execution run = execution();
      Pair pair(f, run, toy);
      const Matrix<double> y = normal(f.sets, 2);
      const double unit = 2 * f.unit() * pair.size * pair.size;
      const auto stored = [&](backend::Design& design, const Matrix<double>& a) {
        Matrix<double> out(a.rows(), a.cols());
        copy_rows(a, out);
        return side == backend::Side::dual ? std::move(out) : design.stored(a);
      };
      const backend::GramRequest request{.side = side, .targets = y, .intercept = f.centre};
      const auto solve = [&](backend::Design& design, Precision precision, double shift) {
        backend::GramRequest asked = request;
        asked.precision = precision;
        const auto exact = design.gram(request);
        EXPECT_NEAR(exact->trace(), pair.plain->mean_square_row() * double(f.sets), unit * double(f.sets));
        Matrix<double> out(exact->size(), 2);
        design.gram(asked)->factor(shift)->solve(exact->right_side(), out);
        return stored(design, out);
      };
      // A system of condition 1e3: |G| is at most its trace.
      const double shift = 1e-3 * pair.size * pair.size;
      const Matrix<double> expected = solve(*pair.plain, Precision::f64, shift);
      const double size = norm(y) * (side == backend::Side::dual ? 1 : pair.size) / shift;
      expect_near(solve(*pair.found, Precision::f64, shift), expected, unit / shift * size, "factor");
      // A few digits: relative to the shift, features of 12 bits move G by 2^-12 |Phi|^2 at most.
      expect_near(solve(*pair.found, Precision::f32, shift), expected,
                  0x1p-12 * pair.size * pair.size / shift * size, "factor of few digits");
    }
}

// Every example left out in turn, at penalties that the features resolve.
TEST_P(DesignContract, LeaveOneOut) {
  for (const Features& f : families())
    for (const backend::Side side : {backend::Side::dual, backend::Side::primal}) {
      toy::FitMachine toy;
      const Execution run = execution();
      Pair pair(f, run, toy);
      Matrix<double> y = normal(f.sets, 2);
      for (Index c = 0; c < 2 && f.centre; ++c) {
        double mean = 0;
        for (Index i = 0; i < f.sets; ++i) mean += y(i, c) / double(f.sets);
        for (Index i = 0; i < f.sets; ++i) y(i, c) -= mean;
      }
      std::vector<double> shifts;
      for (const double share : {1.0, 0.1, 0.01}) shifts.push_back(share * pair.size * pair.size);
      const backend::GramRequest request{.side = side, .targets = y, .intercept = f.centre};
      const auto found = pair.found->gram(request)->shift_path()->leave_one_out(shifts);
      const auto plain = pair.plain->gram(request)->shift_path()->leave_one_out(shifts);
      ASSERT_EQ(found.size(), shifts.size());
      for (std::size_t k = 0; k < shifts.size(); ++k)
        EXPECT_NEAR(found[k] / plain[k], 1, 8 * f.unit() * pair.size * pair.size / shifts[k]);
    }
}

// Ctrl-C: a fit that is told to stop ends with the next block, at the first question, halfway or at the last.
TEST_P(DesignContract, AFitEndsWhenAsked) {
  const LabelledSets data = reference::labelled(reference::equal_sets<double>(90, 3, 4, 7), 4, 1);
  for (const Precision precision : {Precision::f64, Precision::f32})
    for (const std::optional<double> ridge : {std::optional<double>(), std::optional<double>(0.1)}) {
      FitOptions options;
      options.features.heads = 40;
      options.features.precision = precision;
      options.ridge = ridge;
      Execution run = execution();
      int asked = 0, last = -1;
      run.cancelled = [&] { return ++asked == last; };
      (void)fit(data, options, run);
      ASSERT_GT(asked, 2);
      for (const int when : {1, asked / 2, asked}) {
        asked = 0, last = when;
        try {
          (void)fit(data, options, run);
          FAIL() << "not ended at question " << when;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::interrupted) << error.what();
        }
      }
    }
}

// Sums that survive a kill are kept, or the fit says that they are not.
TEST_P(DesignContract, ChecksPointsOrRefuses) {
  Execution run = execution();
  run.checkpoint = {testing::TempDir() + "design-checkpoint", "a test"};
  const backend::Context context = backend::context_of(run);
  const Features f(50, 7, ModelKind::rfa, true, Precision::f64);
  if (GetParam() == "cpu") {
    EXPECT_NO_THROW(context.machine.make_design(f.source(), f.drawn, context));
    return;
  }
  try {
    context.machine.make_design(f.source(), f.drawn, context);
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("checkpoint"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, DesignContract, testing::ValuesIn(reference::backend_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace headlens
