// The two ways headlens uses threads: parallel_for over items of work, and watched_team for work of minutes.
//
// Work is cut into items whose number and order do not depend on the number of threads; every item writes its
// own output, and sums over items are taken afterwards in item order. So the result never depends on the
// threads. Threads are started per call: that costs some 20 microseconds, needs no idle pool that spins or
// survives a fork, and is visible to ThreadSanitizer.
#pragma once

#include <functional>

#include "headlens/array.hpp"
#include "headlens/execution.hpp"

namespace headlens {

// Threads that `execution` grants: its own number, or the cores this process may use.
int thread_count(const Execution& execution);

// body(item, worker) for every item in [0, count), worker in [0, threads). The first exception is rethrown
// here.
void parallel_for(int threads, Index count, const std::function<void(Index item, int worker)>& body);

// Makes every parallel_for that this thread starts while this lives ask `execution` whether to stop, between
// its items and at least every 50 ms while it waits for other threads. Every public call that may take long
// begins with one.
class Heed {
 public:
  explicit Heed(const Execution& execution);
  ~Heed();
  Heed(const Heed&) = delete;
  Heed& operator=(const Heed&) = delete;

 private:
  const Execution* before_;
};

// Throws Error{interrupted} if this thread, or the one whose work it does, is to stop. For items of
// parallel_for that may take longer than a moment.
void heed();

// body(worker) on `threads` threads of their own, while the calling thread calls watch() every 50 ms: for
// work of minutes whose progress and cancellation belong to the calling thread. The first exception is
// rethrown here.
void watched_team(int threads, const std::function<void(int worker)>& body,
                  const std::function<void()>& watch);

}  // namespace headlens
