// Every instance of the products of one head against loops in double, for sizes that do not fill vectors,
// masks and padding. Memory around the factors holds NaN: nothing there is read or written.
#include "attention/one_head.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "cpu/levels.hpp"

namespace headlens {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
constexpr double kUnit = std::numeric_limits<T>::epsilon() / 2;  // relative error of one operation

// A matrix inside a larger one of NaN; rows from `used` on are NaN as well.
template <class T>
class Inside {
 public:
  Inside(Index rows, Index cols) : rows_(rows), cols_(cols), all_(rows + 2, cols + 5) {
    for (Index i = 0; i < all_.rows() * all_.cols(); ++i) all_.data()[i] = static_cast<T>(kNaN);
  }
  static Inside drawn(Index rows, Index used, Index cols, Stream& stream) {
    Inside out(rows, cols);
    for (Index i = 0; i < used; ++i)
      for (Index j = 0; j < cols; ++j) out.view()(i, j) = static_cast<T>(stream.normal());
    return out;
  }
  MatrixView<T> view() { return all_.view().block(1, 2, rows_, cols_); }
  MatrixView<const T> view() const { return all_.view().block(1, 2, rows_, cols_); }
  double operator()(Index i, Index j) const { return static_cast<double>(view()(i, j)); }
  void expect_nothing_around() const {
    for (Index i = 0; i < all_.rows(); ++i)
      for (Index j = 0; j < all_.cols(); ++j)
        if (i < 1 || i > rows_ || j < 2 || j >= cols_ + 2) {
          ASSERT_TRUE(std::isnan(all_(i, j)));
        }
  }

 private:
  Index rows_, cols_;
  Matrix<T> all_;
};

// A sum and the sum of the sizes of its terms, by which its rounding is measured.
struct Sum {
  double value = 0, size = 0;
  void add(double term, double term_size) {
    value += term;
    size += term_size;
  }
  void add(double term) { add(term, std::abs(term)); }
};

template <class T>
class Head {
 public:
  Head(Sight sight, Index r, Index s, SimdLevel level)
      : sight_(sight),
        r_(r),
        s_(s),
        n_(sight.length),
        one_(one_head<T>(level)),
        work_(one_.room(sight.tokens, std::max(r, s))) {}

  void check() {
    check_attend();
    check_derivative();
    for (const double before : {0.0, 1.0}) check_adjoint(before);
  }

 private:
  using Factor = Inside<T>;
  Factor draw(Index cols) { return Factor::drawn(sight_.tokens, n_, cols, stream_); }
  HeadImages<const T> at() const { return {q_.view(), k_.view(), v_.view()}; }
  static HeadImages<const T> views(const Factor& q, const Factor& k, const Factor& v) {
    return {q.view(), k.view(), v.view()};
  }
  void expect(const Factor& found, Index row, Index column, double value, double error) const {
    ASSERT_NEAR(found(row, column), value, error)
        << sight_.tokens << " tokens, " << n_ << " of them seen, causal " << sight_.causal << ", ranks " << r_
        << " and " << s_ << ", row " << row << ", column " << column;
  }
  void expect_zero_from(const Factor& found, Index first, Index cols) const {
    for (Index i = first; i < sight_.tokens; ++i)
      for (Index j = 0; j < cols; ++j) expect(found, i, j, 0, 0);
    found.expect_nothing_around();
  }

  // With logits good to e = (r + 2) u times their size, weights are good to 2 e, and (n + 16) u for the
  // exponential, the sum and the quotient.
  void check_attend() {
    Factor p(sight_.tokens, sight_.tokens), phi(sight_.tokens, s_);
    one_.attend(sight_, at(), p.view(), phi.view(), work_.data());
    for (Index a = 0; a < n_; ++a) {
      const Index seen = sight_.of(a);
      std::vector<Sum> logits(static_cast<std::size_t>(seen));
      double highest = -1e300, size = 0, total = 0;
      for (Index b = 0; b < seen; ++b) {
        Sum& logit = logits[static_cast<std::size_t>(b)];
        for (Index t = 0; t < r_; ++t) logit.add(q_(a, t) * k_(b, t));
        highest = std::max(highest, logit.value);
        size = std::max(size, logit.size);
      }
      for (const Sum& logit : logits) total += std::exp(logit.value - highest);
      const double error =
          std::expm1((4 * (static_cast<double>(r_) + 2) * size + static_cast<double>(seen) + 16) * kUnit<T>);
      for (Index b = 0; b < sight_.tokens; ++b) {
        weights_(a, b) = b < seen ? std::exp(logits[static_cast<std::size_t>(b)].value - highest) / total : 0;
        expect(p, a, b, weights_(a, b), b < seen ? error * weights_(a, b) + 1e-37 : 0);
      }
      for (Index j = 0; j < s_; ++j) {
        Sum sum;
        for (Index b = 0; b < seen; ++b) sum.add(weights_(a, b) * v_(b, j));
        expect(phi, a, j, sum.value, (2 * error + static_cast<double>(seen) * kUnit<T>)*sum.size + 1e-35);
      }
    }
    expect_zero_from(p, n_, sight_.tokens);
    expect_zero_from(phi, n_, s_);
    for (Index a = 0; a < sight_.tokens; ++a)
      for (Index b = 0; b < sight_.tokens; ++b)
        p_.view()(a, b) = a < n_ ? static_cast<T>(weights_(a, b)) : T(0);
  }

  // p * (t - <p, t>) of one row, whose sizes are twice the largest size of t.
  std::vector<Sum> bent(Index a, const std::vector<Sum>& t) const {
    Sum mean;
    double largest = 0;
    for (std::size_t b = 0; b < t.size(); ++b) {
      mean.add(p_(a, static_cast<Index>(b)) * t[b].value);
      largest = std::max(largest, t[b].size);
    }
    std::vector<Sum> out;
    for (std::size_t b = 0; b < t.size(); ++b) {
      const double weight = p_(a, static_cast<Index>(b));
      out.push_back({weight * (t[b].value - mean.value), 2 * weight * largest});
    }
    return out;
  }
  // Relative to its size, an entry of a bent row is good to so much, and a sum of n such terms to n u more.
  double error(Index terms) const { return 2 * static_cast<double>(terms + 2 * n_ + 8) * kUnit<T>; }

  void check_derivative() {
    const Factor dq = draw(r_), dk = draw(r_), dv = draw(s_);
    Factor dphi(sight_.tokens, s_);
    one_.derivative(sight_, at(), views(dq, dk, dv), p_.view(), dphi.view(), work_.data());
    for (Index a = 0; a < n_; ++a) {
      std::vector<Sum> moved(static_cast<std::size_t>(sight_.of(a)));
      for (std::size_t b = 0; b < moved.size(); ++b)
        for (Index t = 0; t < r_; ++t) {
          moved[b].add(dq(a, t) * k_(static_cast<Index>(b), t));
          moved[b].add(q_(a, t) * dk(static_cast<Index>(b), t));
        }
      const std::vector<Sum> dp = bent(a, moved);
      for (Index j = 0; j < s_; ++j) {
        Sum sum;
        for (std::size_t b = 0; b < dp.size(); ++b) {
          const auto token = static_cast<Index>(b);
          sum.add(dp[b].value * v_(token, j), dp[b].size * std::abs(v_(token, j)));
          sum.add(p_(a, token) * dv(token, j));
        }
        expect(dphi, a, j, sum.value, error(2 * r_) * sum.size);
      }
    }
    expect_zero_from(dphi, n_, s_);
  }

  void check_adjoint(double before) {
    const Factor g = draw(s_);
    Factor dq = draw(r_), dk = draw(r_), dv = draw(s_);
    std::vector<std::vector<Sum>> c;
    for (Index a = 0; a < n_; ++a) {
      std::vector<Sum> t(static_cast<std::size_t>(sight_.of(a)));
      for (std::size_t b = 0; b < t.size(); ++b)
        for (Index j = 0; j < s_; ++j) t[b].add(g(a, j) * v_(static_cast<Index>(b), j));
      c.push_back(bent(a, t));
    }
    Matrix<Sum> keys(n_, r_), values(n_, s_);
    for (Index b = 0; b < n_; ++b) {
      for (Index t = 0; t < r_; ++t) keys(b, t) = started(before, dk(b, t));
      for (Index j = 0; j < s_; ++j) values(b, j) = started(before, dv(b, j));
    }
    one_.adjoint(sight_, at(), p_.view(), g.view(), {dq.view(), dk.view(), dv.view()}, static_cast<T>(before),
                 work_.data());
    for (Index a = 0; a < n_; ++a) {
      const std::vector<Sum>& row = c[static_cast<std::size_t>(a)];
      for (Index t = 0; t < r_; ++t) {
        Sum query;
        for (std::size_t b = 0; b < row.size(); ++b) {
          const auto token = static_cast<Index>(b);
          query.add(row[b].value * k_(token, t), row[b].size * std::abs(k_(token, t)));
          keys(token, t).add(row[b].value * q_(a, t), row[b].size * std::abs(q_(a, t)));
        }
        expect(dq, a, t, query.value, error(s_) * query.size);
      }
      for (Index b = 0; b < sight_.of(a); ++b)
        for (Index j = 0; j < s_; ++j) values(b, j).add(p_(a, b) * g(a, j));
    }
    for (Index b = 0; b < n_; ++b) {
      for (Index t = 0; t < r_; ++t) expect(dk, b, t, keys(b, t).value, error(s_) * keys(b, t).size);
      for (Index j = 0; j < s_; ++j) expect(dv, b, j, values(b, j).value, error(0) * values(b, j).size);
    }
    expect_zero_from(dq, n_, r_);
    if (before == 0) {
      expect_zero_from(dk, n_, r_);
      expect_zero_from(dv, n_, s_);
    }
  }
  static Sum started(double before, double value) {
    return before == 0 ? Sum{} : Sum{value, std::abs(value)};
  }

  Sight sight_;
  Index r_, s_, n_;
  OneHead<T> one_;
  Buffer<T> work_;
  Stream stream_{1, "one head"};
  Factor q_ = draw(r_), k_ = draw(r_), v_ = draw(s_);
  Factor p_{sight_.tokens, sight_.tokens};
  Matrix<double> weights_{sight_.tokens, sight_.tokens};
};

template <class T>
void check_heads() {
  const std::vector<Index> ranks = {0, 1, 5, 8, 31, 32, 64};
  for (const SimdLevel level : cpu::levels())
    for (const Index tokens : {1, 2, 3, 16, 17, 33, 128})
      for (const bool causal : {false, true})
        for (const Index length : {tokens, (tokens + 2) / 3})
          for (std::size_t r = 0; r < ranks.size(); ++r) {
            Head<T>({tokens, length, causal}, ranks[r], ranks[(r + 3) % ranks.size()], level).check();
            if (testing::Test::HasFatalFailure()) return;
          }
}

TEST(OneHead, AgreesWithTheLoopsInFloat) { check_heads<float>(); }
TEST(OneHead, AgreesWithTheLoopsInDouble) { check_heads<double>(); }

// What a token sees is all that counts: with a mask, later tokens may hold anything finite.
TEST(OneHead, LaterTokensDoNotMatter) {
  for (const SimdLevel level : cpu::levels()) {
    const OneHead<float> one = one_head<float>(level);
    Stream stream(2, "later tokens");
    Inside<float> q = Inside<float>::drawn(20, 20, 7, stream), k = Inside<float>::drawn(20, 20, 7, stream),
                  v = Inside<float>::drawn(20, 20, 7, stream);
    Buffer<float> work(one.room(20, 7));
    Matrix<float> p(20, 20), phi[2] = {Matrix<float>(20, 7), Matrix<float>(20, 7)};
    for (Matrix<float>& out : phi) {
      one.attend({20, 20, true}, {q.view(), k.view(), v.view()}, p.view(), out.view(), work.data());
      for (Index j = 0; j < 7; ++j) k.view()(11, j) = v.view()(11, j) = 30;
    }
    for (Index i = 0; i < 11 * 7; ++i) EXPECT_EQ(phi[0].data()[i], phi[1].data()[i]);
    EXPECT_NE(phi[0](11, 0), phi[1](11, 0));
  }
}

}  // namespace
}  // namespace headlens
