// Processes that work on one problem: ranks 0 .. size - 1. All of them run the same algorithm on the same
// small numbers (targets, coefficients, penalties), each has its own part of the sets, and what is a sum over
// sets is summed here. Every rank gets the same bits, so that all take the same decisions.
//
// A collective call is made by all ranks in the same order. One that waits asks `heed()` whether to stop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace headlens::comm {

// Dense matrices in ScaLAPACK's two-dimensional block-cyclic layout: block (I, J) of a matrix lies on the
// process (I mod rows, J mod columns) of a grid. Local arrays are by columns.
struct GridPlace {
  int rows = 1, columns = 1;  // of the grid
  int row = 0, column = 0;    // of this rank
  std::int64_t block = 1;     // edge of a block
};

// Of a rank on the grid nearest to a square, for matrices with n rows: a factorisation sends n^2 / rows +
// n^2 / columns numbers per rank. Blocks are small enough for every rank to have several.
inline GridPlace place_on_grid(int rank, int ranks, std::int64_t n) {
  constexpr std::int64_t kLargestBlock = 64;
  GridPlace out;
  for (int rows = 1; rows * rows <= ranks; ++rows)
    if (ranks % rows == 0) out.rows = rows;
  out.columns = ranks / out.rows;
  out.row = rank / out.columns;
  out.column = rank % out.columns;
  out.block = std::clamp<std::int64_t>(n / (4 * std::max(out.rows, out.columns)), 1, kLargestBlock);
  return out;
}

class Grid {
 public:
  virtual ~Grid() = default;
  // For matrices with n rows: every rank has some if n is at least the number of ranks.
  virtual GridPlace place(std::int64_t n) const = 0;
  // Lower triangle of the symmetric a (n, n) -> its Cholesky factor; false if a is not positive definite.
  // What lies above the diagonal stays.
  virtual bool cholesky(double* a, std::int64_t n) = 0;
  // b (n, q) -> a^-1 b, with the factor of a.
  virtual void cholesky_solve(const double* a, std::int64_t n, double* b, std::int64_t q) = 0;
  // Eigenvalues (n), increasing, on every rank, and the local part of the eigenvectors, as columns. Uses a
  // up. False if the iteration does not converge.
  virtual bool eigen(double* a, std::int64_t n, double* values, double* vectors) = 0;
  // Beside a: bytes of the local part of the workspace and eigenvectors.
  virtual double eigen_bytes(std::int64_t n) const = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int neighbours() const = 0;  // ranks on this machine, this one included
  virtual std::string name() const = 0;

  virtual void sum(std::span<double> values) = 0;
  virtual void sum(std::span<float> values) = 0;
  virtual void least(std::span<double> values) = 0;
  // The parts of all ranks one after the other, where room(bytes) says: on every rank, or on rank 0 alone,
  // where only it is asked for room.
  using Room = std::function<std::byte*(std::size_t bytes)>;
  virtual void gather(std::span<const std::byte> part, const Room& room) = 0;
  virtual void gather_on_first(std::span<const std::byte> part, const Room& room) = 0;
  // To every rank the part for it; back come the parts of all ranks for this one, in order.
  using Parts = std::vector<std::vector<std::byte>>;
  virtual Parts exchange(const Parts& to) = 0;
  virtual Grid& grid() = 0;
  // Bytes that this rank has got by sums, gathers, the least and exchanges, its own part of a sum or gather
  // included. What the factorisation of the grid moves is not counted.
  virtual std::uint64_t exchanged_bytes() const = 0;

  // Every rank that fails says why, and waits a few seconds for the others to fail, too. True if all did:
  // then this is the end of working together, and `first` the first text that is not empty. False if others
  // go on.
  virtual bool last_words(const std::string& text, double seconds, std::string& first) = 0;
  [[noreturn]] virtual void abort(int status) = 0;  // ends all ranks
  virtual void leave() = 0;                         // waits for all ranks, without spinning

  bool alone() const { return size() == 1; }
  double sum(double value) {
    sum(std::span(&value, 1));
    return value;
  }
  double of_first(double value) { return sum(rank() == 0 ? value : 0.0); }  // what rank 0 has
  double least(double value) {
    least(std::span(&value, 1));
    return value;
  }
  // One text per rank.
  std::vector<std::string> gather_texts(const std::string& text);
  // `act` on every rank; if it throws Error on some, all throw the Error of the first of those.
  void together(const std::function<void()>& act);
};

template <class T>
std::vector<T> gather(Communicator& ranks, std::span<const T> part) {
  std::vector<T> out;
  ranks.gather(std::as_bytes(part), [&](std::size_t bytes) {
    out.resize(bytes / sizeof(T));
    return reinterpret_cast<std::byte*>(out.data());
  });
  return out;
}

// One process alone.
Communicator& serial();

// The ranks that this process belongs to: serial() unless mpirun started it with others.
Communicator& world();

// world() is `ranks` while this lives.
class Replacement {
 public:
  explicit Replacement(Communicator& ranks);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

 private:
  Communicator* before_;
};

}  // namespace headlens::comm
