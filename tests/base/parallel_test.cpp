#include "base/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "headlens/error.hpp"

namespace headlens {
namespace {

TEST(ParallelFor, VisitsEveryItemOnce) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> seen(100);
    std::atomic<int> largest_worker{0};
    parallel_for(threads, 100, [&](Index item, int worker) {
      ++seen[static_cast<std::size_t>(item)];
      int old = largest_worker;
      while (worker > old && !largest_worker.compare_exchange_weak(old, worker)) {
      }
    });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
    EXPECT_LT(largest_worker, threads);
  }
}

// Every item lasts until somebody is told to stop: without that the test would not end.
TEST(ParallelFor, AStopReachesItemsInTheirMidst) {
  for (const int threads : {1, 2, 4}) {
    std::atomic<int> asked{0};
    Execution execution;
    execution.cancelled = [&, caller = std::this_thread::get_id()] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      return ++asked > 5;
    };
    const Heed heeding(execution);
    EXPECT_THROW(parallel_for(threads, threads,
                              [](Index, int) {
                                for (;;) heed();
                              }),
                 Error);
  }
}

TEST(ParallelFor, AStopReachesOthersWhenTheCallingThreadHasNoItemLeft) {
  std::atomic<int> asked{0};
  std::atomic<bool> others_work{false};
  Execution execution;
  execution.cancelled = [&] { return ++asked > 5; };
  const Heed heeding(execution);
  EXPECT_THROW(parallel_for(3, 3,
                            [&](Index, int worker) {
                              while (worker == 0 && !others_work) std::this_thread::yield();
                              others_work = true;
                              while (worker != 0) heed();
                            }),
               Error);
}

TEST(ParallelFor, AStopReachesLoopsInsideItems) {
  std::atomic<int> asked{0};
  Execution execution;
  execution.cancelled = [&] { return ++asked > 5; };
  const Heed heeding(execution);
  EXPECT_THROW(parallel_for(2, 2,
                            [](Index, int) {
                              parallel_for(2, 2, [](Index, int) {
                                for (;;) heed();
                              });
                            }),
               Error);
}

TEST(ParallelFor, NobodyIsAskedOnceTheCallIsOver) {
  Execution execution;
  execution.cancelled = [] { return true; };
  { const Heed heeding(execution); }
  parallel_for(2, 4, [](Index, int) { heed(); });
}

TEST(ParallelFor, DoesNothingForNoItems) {
  parallel_for(4, 0, [](Index, int) { FAIL(); });
}

TEST(ParallelFor, RethrowsOnTheCallingThread) {
  for (const int threads : {1, 3})
    EXPECT_THROW(parallel_for(threads, 50,
                              [](Index i, int) {
                                if (i == 7) throw std::runtime_error("seven");
                              }),
                 std::runtime_error);
}

TEST(WatchedTeam, WatchesOnTheCallingThreadUntilAllHaveEnded) {
  const auto here = std::this_thread::get_id();
  std::atomic<int> watched{0}, ended{0};
  watched_team(
      3,
      [&](int) {
        EXPECT_NE(std::this_thread::get_id(), here);
        while (watched < 2) std::this_thread::yield();
        ++ended;
      },
      [&] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        ++watched;
      });
  EXPECT_EQ(ended, 3);
  watched_team(
      0, [](int) { FAIL(); }, [] { FAIL(); });
}

TEST(WatchedTeam, RethrowsAfterAllHaveEnded) {
  std::atomic<int> ended{0};
  const auto body = [&](int worker) {
    ++ended;
    if (worker == 1) throw std::runtime_error("one");
  };
  EXPECT_THROW(watched_team(3, body, [] {}), std::runtime_error);
  EXPECT_EQ(ended, 3);
}

TEST(ThreadCount, IsWhatWasAskedForOrAllCores) {
  EXPECT_EQ(thread_count({.threads = 3}), 3);
  EXPECT_GE(thread_count({}), 1);
  EXPECT_THROW(thread_count({.threads = -1}), Error);
}

TEST(Execution, CancellationThrowsInterrupted) {
  Execution execution;
  execution.check_cancelled();
  execution.cancelled = [] { return true; };
  try {
    execution.check_cancelled();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
}

}  // namespace
}  // namespace headlens
