// Random starts for a given number of heads, and the bookkeeping that every phase shares.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "backend/backend.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "headlens/recover.hpp"
#include "recover/levenberg_marquardt.hpp"

namespace headlens::recovery {

// The examples, cut: the last eighth (at least one) is held out.
struct Split {
  MatrixView<const double> train_x, train_y, held_x, held_y;
  Index tokens = 0;
  // Where labels are missing, (n k, e) as y: 1 for those that are there, 0 for the others, where y is 0.
  MatrixView<const double> train_seen = {}, held_seen = {};
  std::vector<Index> train_lengths = {}, held_lengths = {};  // empty where all examples have all tokens

  backend::LayerExamples train() const { return {train_x, train_y, tokens, {}, train_lengths, train_seen}; }
  backend::LayerExamples held() const { return {held_x, held_y, tokens, {}, held_lengths, held_seen}; }
  bool is_partial() const { return train_seen.rows > 0; }
  double labels() const;               // that the training examples have, none in rows of padding
  Split first_rows(Index rows) const;  // of the training examples
};
// Sets to zero what is no label.
void hide_missing(MatrixView<const double> seen, MatrixView<double> left);
// Without examples that have no label at all: these tell nothing, and some batches, or all held-out examples,
// might be such. The same where there are none, or nothing else.
Examples with_labels_alone(const Examples& examples);
Split hold_out(const Examples& examples);

// Heads with what they achieve. Errors are relative: |F - Y| / |Y|.
struct Candidate {
  Matrix<double> theta;  // (d, m d)
  Matrix<double> w;      // (m d, e)
  double train_error = 1;
  double held_out_error = 1;

  Index heads() const { return theta.rows() ? theta.cols() / theta.rows() : 0; }
};

// Counts, clock and cancellation of one recovery.
//
// Loops ask expired() and end with what they have. Work that does not ask is ended from within, as it would
// be by Ctrl-C, a moment after the limit: in_time() says that it did not finish.
//
// Over ranks the clock of rank 0 counts, all ranks ask expired() together, and nothing is ended from within:
// that moment would not be the same on all of them.
class Effort {
 public:
  // given_bytes: of the examples, which are in memory already.
  Effort(const RecoverOptions& options, const Execution& execution, std::uint64_t given_bytes = 0);
  Effort(const Effort&) = delete;
  Effort& operator=(const Effort&) = delete;
  bool expired() const;    // on the thread that called
  bool must_stop() const;  // expired; throws if cancelled
  double seconds() const;  // since the call
  void report(const std::string& phase, int step, double relative_squares, Index heads) const;
  void count(const LmResult& result);
  // Examples in other units or another order, beside those given.
  void add_copies(std::uint64_t bytes) { example_bytes_ += static_cast<double>(bytes); }
  // Error unless so much memory may be used beside the examples. The limit is that of the beginning: what the
  // recovery itself holds by now is not free any more.
  void require_room(double bytes, std::string_view what) const;
  // The same for what is used now. The largest sum is what the certificate foresees.
  void reserve(double bytes, std::string_view what);
  const Execution& execution() const { return limited_; }  // the caller's, and it ends late work
  // work() under this execution. False if the time limit ended it; what it had written by then stands.
  template <class Work>
  bool in_time(Work&& work) const;
  int threads() const { return context_.threads; }
  const backend::Context& context() const { return context_; }

  int starts = 0, steps = 0, inner = 0;
  std::uint64_t reserved_bytes = 0;  // the largest so far, with the examples
  std::vector<TracePoint> trace;
  double rounding = 0;  // of labels, as a share of them, where the heads leave the coordinates of the search
  Candidate latest;     // where the solver is, on its training examples: what is left if the limit ends it

 private:
  void require_late(const Error& error) const;  // throws again what is not the end of the time

  Execution execution_, limited_;
  MemoryBudget budget_;
  double example_bytes_;
  bool is_late(std::chrono::milliseconds grace) const;

  mutable bool ended_ = false;    // by the limit and not by the caller
  mutable bool expired_ = false;  // on all ranks
  backend::Context context_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

template <class Work>
bool Effort::in_time(Work&& work) const {
  try {
    const Heed heeding(limited_);
    work();
    return true;
  } catch (const Error& error) {
    require_late(error);
    return false;
  }
}

// What work() returns; its seconds are added.
template <class Work>
auto timed(double& seconds, Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  auto result = work();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

// The training examples as a problem in so many heads, on the machine of this recovery.
std::unique_ptr<backend::LayerProblem> pose(const Split& split, Index heads, const Effort& effort);

// Minimises from theta and measures on the held-out examples.
Candidate solve_from(const Split& split, Matrix<double> theta, const LmOptions& options,
                     const std::string& phase, Effort& effort);

// The start of this number: entries N(0, (0.5/d)^2).
Matrix<double> random_start(Index dim, Index heads, std::uint64_t seed, int start);

// Y - F(X) for these heads.
Matrix<double> residual_on(MatrixView<const double> x, MatrixView<const double> y, Index tokens,
                           const Matrix<double>& theta, const Matrix<double>& w, int threads);

double held_out_error(const Split& split, const Matrix<double>& theta, const Matrix<double>& w, int threads);

Candidate copy_of(const Candidate& candidate);

// Held-out relative errors below this are a proof: chance cannot predict 8 digits.
inline constexpr double kProof = 1e-8;
// `flat` of a run whose end is compared with another's to many digits.
inline constexpr double kTight = 1e-9;
// Below this the start has found the layer and is worth polishing.
inline constexpr double kNear = 1e-3;

}  // namespace headlens::recovery
