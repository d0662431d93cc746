#include "base/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "headlens/error.hpp"

namespace headlens {

void Execution::check_cancelled() const {
  if (cancelled && cancelled()) throw Error(ErrorCode::interrupted, "interrupted");
}

int thread_count(const Execution& execution) {
  require(execution.threads >= 0, option("threads"), ": ", execution.threads,
          " given, expected 1 or more (0: all cores)");
  if (execution.threads > 0) return execution.threads;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

namespace {

thread_local const Execution* t_execution = nullptr;       // what a Heed of this thread asks
thread_local const std::atomic<bool>* t_failed = nullptr;  // the team whose work this thread does

struct Team {
  std::atomic<Index> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable ended;
  int running = 0;  // of the threads beside the calling one
  std::exception_ptr error;

  void fail() {
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
    failed = true;
  }

  void work(Index count, int worker, const std::function<void(Index, int)>& body) {
    try {
      for (Index item = next++; item < count && !failed; item = next++) {
        heed();
        body(item, worker);
      }
    } catch (...) {
      fail();
    }
  }

  void end() {
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_one();
  }

  // The calling thread has no item left, but is the one that can be told to stop.
  void wait() {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return running == 0; })) {
      lock.unlock();
      try {
        heed();
      } catch (...) {
        fail();
      }
      lock.lock();
    }
  }
};

}  // namespace

Heed::Heed(const Execution& execution) : before_(std::exchange(t_execution, &execution)) {}
Heed::~Heed() { t_execution = before_; }

void heed() {
  if (t_failed != nullptr && *t_failed) throw Error(ErrorCode::interrupted, "interrupted");
  if (t_execution != nullptr) t_execution->check_cancelled();
}

void parallel_for(int threads, Index count, const std::function<void(Index, int)>& body) {
  Team team;
  team.running = std::max(0, static_cast<int>(std::min<Index>(threads, count)) - 1);
  {
    std::vector<std::jthread> workers;
    for (int worker = 1, extra = team.running; worker <= extra; ++worker)
      workers.emplace_back([&, worker] {
        t_failed = &team.failed;
        team.work(count, worker, body);
        team.end();
      });
    team.work(count, 0, body);
    team.wait();
  }
  if (team.error) std::rethrow_exception(team.error);
}

void watched_team(int threads, const std::function<void(int)>& body, const std::function<void()>& watch) {
  std::mutex mutex;
  std::condition_variable ended;
  int running = threads;
  std::exception_ptr error;
  {
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < threads; ++worker)
      workers.emplace_back([&, worker] {
        std::exception_ptr mine;
        try {
          body(worker);
        } catch (...) {
          mine = std::current_exception();
        }
        const std::lock_guard lock(mutex);
        if (!error) error = mine;
        --running;
        ended.notify_one();
      });
    std::unique_lock lock(mutex);
    while (running > 0) {
      lock.unlock();
      watch();
      lock.lock();
      ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return running == 0; });
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace headlens
