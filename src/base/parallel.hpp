// The one way headlens uses threads.
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

// body(worker) on `threads` threads of their own, while the calling thread calls watch() every 50 ms: for
// work of minutes whose progress and cancellation belong to the calling thread. The first exception is
// rethrown here.
void watched_team(int threads, const std::function<void(int worker)>& body,
                  const std::function<void()>& watch);

}  // namespace headlens
