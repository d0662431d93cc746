// Ranks without MPI: threads of one process that meet at a barrier, with sums by plain loops. Its grid puts
// whole matrices together on every rank, factors them there, and takes its own part.
//
// A rank that leaves while others go on (it throws, or a fatal failure of a test returns from it) breaks the
// meeting: the others throw Left when they next wait for it, before they read what it has shown.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "comm/communicator.hpp"
#include "headlens/error.hpp"
#include "linalg/eigen.hpp"
#include "linalg/matrix.hpp"

namespace headlens::reference {

struct Meeting {
  explicit Meeting(int size) : gate(size), slots(static_cast<std::size_t>(size)) {}
  std::barrier<> gate;
  std::vector<const void*> slots;
  std::vector<std::size_t> sizes = std::vector<std::size_t>(slots.size());
  // Meetings of the rank that left first. Ranks that end together leave after the same one, and then nobody
  // waits for them.
  std::atomic<std::int64_t> broken = std::numeric_limits<std::int64_t>::max();
};

struct Left : Bug {
  Left() : Bug("another rank has left") {}
};

class ThreadRanks;

class ThreadGrid final : public comm::Grid {
 public:
  explicit ThreadGrid(ThreadRanks& ranks) : ranks_(ranks) {}
  comm::GridPlace place(std::int64_t n) const override;
  bool cholesky(double* a, std::int64_t n) override;
  void cholesky_solve(const double* a, std::int64_t n, double* b, std::int64_t q) override;
  bool eigen(double* a, std::int64_t n, double* values, double* vectors) override;
  double eigen_bytes(std::int64_t) const override { return 0; }

 private:
  // act(i, j, entry) of the entries that this rank has of a matrix (n, columns).
  template <class T, class Act>
  void each(T* a, std::int64_t n, std::int64_t columns, const Act& act) const;
  Matrix<double> whole(const double* a, std::int64_t n, std::int64_t columns) const;
  ThreadRanks& ranks_;
};

class ThreadRanks final : public comm::Communicator {
 public:
  ThreadRanks(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank), grid_(*this) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_.slots.size()); }
  int neighbours() const override { return size(); }
  std::string name() const override { return "threads"; }
  void sum(std::span<double> values) override {
    reduce(values, [](auto& to, auto from) { to += from; });
  }
  void sum(std::span<float> values) override {
    reduce(values, [](auto& to, auto from) { to += from; });
  }
  void least(std::span<double> values) override {
    reduce(values, [](auto& to, auto from) { to = std::min(to, from); });
  }
  void gather(std::span<const std::byte> part, const Room& room) override { gather(part, room, true); }
  void gather_on_first(std::span<const std::byte> part, const Room& room) override {
    gather(part, room, rank_ == 0);
  }
  Parts exchange(const Parts& to) override {
    const Shown shown(*this, &to, 0);
    Parts out;
    for (const void* slot : meeting_.slots)
      out.push_back((*static_cast<const Parts*>(slot)).at(static_cast<std::size_t>(rank_)));
    for (std::size_t r = 0; r < out.size(); ++r)
      exchanged_ += static_cast<int>(r) == rank_ ? 0 : out[r].size();
    return out;
  }
  comm::Grid& grid() override { return grid_; }
  std::uint64_t exchanged_bytes() const override { return exchanged_; }
  bool last_words(const std::string&, double, std::string&) override { return false; }
  void abort(int) override { std::terminate(); }
  void leave() override { meet(); }
  void meet() {
    wait();
    if (meeting_.broken < meetings_) throw Left();
  }
  // By each rank at its end: nobody waits for it any more.
  void drop() {
    for (std::int64_t known = meeting_.broken; known > meetings_;)
      if (meeting_.broken.compare_exchange_weak(known, meetings_)) break;
    meeting_.gate.arrive_and_drop();
  }

 private:
  // What this rank shows the others stays until all have read it, also where reading throws.
  struct Shown {
    Shown(ThreadRanks& all, const void* slot, std::size_t size) : ranks(all) {
      ranks.meeting_.slots[static_cast<std::size_t>(ranks.rank_)] = slot;
      ranks.meeting_.sizes[static_cast<std::size_t>(ranks.rank_)] = size;
      ranks.meet();
    }
    ~Shown() { ranks.wait(); }
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;
    ThreadRanks& ranks;
  };

  void wait() {
    meeting_.gate.arrive_and_wait();
    ++meetings_;
  }
  template <class T, class Combine>
  void reduce(std::span<T> values, const Combine& combine) {
    const std::vector<T> all = combined<T>(values, combine);
    std::copy(all.begin(), all.end(), values.begin());
    exchanged_ += values.size_bytes();
  }
  template <class T, class Combine>
  std::vector<T> combined(std::span<const T> values, const Combine& combine) {
    const Shown shown(*this, values.data(), values.size());
    std::vector<T> all(values.size());
    for (std::size_t r = 0; r < meeting_.slots.size(); ++r) {
      if (meeting_.sizes[r] != values.size()) throw Bug("ranks reduce arrays of different lengths");
      const T* from = static_cast<const T*>(meeting_.slots[r]);
      if (r == 0) all.assign(from, from + values.size());
      for (std::size_t i = 0; r > 0 && i < values.size(); ++i) combine(all[i], from[i]);
    }
    return all;
  }
  void gather(std::span<const std::byte> part, const Room& room, bool here) {
    const Shown shown(*this, part.data(), part.size());
    std::size_t total = 0;
    for (const std::size_t size : meeting_.sizes) total += size;
    std::byte* to = here ? room(total) : nullptr;
    for (std::size_t r = 0; here && r < meeting_.slots.size(); ++r)
      to = std::copy_n(static_cast<const std::byte*>(meeting_.slots[r]), meeting_.sizes[r], to);
    exchanged_ += total;
  }
  Meeting& meeting_;
  int rank_;
  ThreadGrid grid_;
  std::uint64_t exchanged_ = 0;
  std::int64_t meetings_ = 0;
};

// act(ranks) on so many threads. What one throws is thrown here; that others have left, only if none says
// why.
template <class Act>
void on_ranks(int size, const Act& act) {
  Meeting meeting(size);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size)), left(failures);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(meeting, rank);
      try {
        act(ranks);
      } catch (const Left&) {
        left[static_cast<std::size_t>(rank)] = std::current_exception();
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
      ranks.drop();
    });
  for (std::thread& thread : threads) thread.join();
  failures.insert(failures.end(), left.begin(), left.end());
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

inline comm::GridPlace ThreadGrid::place(std::int64_t n) const {
  return comm::place_on_grid(ranks_.rank(), ranks_.size(), n);
}

template <class T, class Act>
void ThreadGrid::each(T* a, std::int64_t n, std::int64_t columns, const Act& act) const {
  const comm::GridPlace at = place(n);
  std::int64_t next = 0;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < n; ++i)
      if (i / at.block % at.rows == at.row && j / at.block % at.columns == at.column) act(i, j, a[next++]);
}

inline Matrix<double> ThreadGrid::whole(const double* a, std::int64_t n, std::int64_t columns) const {
  Matrix<double> out = Matrix<double>::zeros(n, columns);
  each(a, n, columns, [&](Index i, Index j, double entry) { out(i, j) = entry; });
  ranks_.sum(std::span<double>(out.data(), static_cast<std::size_t>(n * columns)));
  return out;
}

inline bool ThreadGrid::cholesky(double* a, std::int64_t n) {
  Matrix<double> l = whole(a, n, n);
  for (Index j = 0; j < n; ++j) {
    for (Index k = 0; k < j; ++k)
      for (Index i = j; i < n; ++i) l(i, j) -= l(i, k) * l(j, k);
    if (!(l(j, j) > 0)) return false;
    const double root = std::sqrt(l(j, j));
    for (Index i = j; i < n; ++i) l(i, j) /= root;
  }
  each(a, n, n, [&](Index i, Index j, double& entry) {
    if (i >= j) entry = l(i, j);
  });
  return true;
}

inline void ThreadGrid::cholesky_solve(const double* a, std::int64_t n, double* b, std::int64_t q) {
  const Matrix<double> l = whole(a, n, n);
  Matrix<double> x = whole(b, n, q);
  for (Index c = 0; c < q; ++c) {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < i; ++j) x(i, c) -= l(i, j) * x(j, c);
      x(i, c) /= l(i, i);
    }
    for (Index i = n - 1; i >= 0; --i) {
      for (Index j = i + 1; j < n; ++j) x(i, c) -= l(j, i) * x(j, c);
      x(i, c) /= l(i, i);
    }
  }
  each(b, n, q, [&](Index i, Index j, double& entry) { entry = x(i, j); });
}

inline bool ThreadGrid::eigen(double* a, std::int64_t n, double* values, double* vectors) {
  const Matrix<double> all = whole(a, n, n);
  const SymmetricEigen eigen = symmetric_eigen(all.view());
  if (!eigen.ok()) return false;
  std::copy(eigen.values.begin(), eigen.values.end(), values);
  each(vectors, n, n, [&](Index i, Index k, double& entry) { entry = eigen.vectors(k, i); });
  return true;
}

}  // namespace headlens::reference
