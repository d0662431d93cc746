// grid -> what is missing -> workers that claim, run and record one cell after another
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "headlens/info.hpp"
#include "study/cell.hpp"
#include "study/grid.hpp"
#include "study/process.hpp"
#include "study/store.hpp"

namespace headlens {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The first of each key, all cells of one seed before those of the next: a picture of the whole grid appears
// early, and the time left is guessed from cells of every size.
std::vector<std::size_t> running_order(const std::vector<StudyCell>& cells, std::size_t seeds) {
  std::vector<std::size_t> order;
  std::set<std::string> seen;
  for (std::size_t seed = 0; seed < seeds; ++seed)
    for (std::size_t i = seed; i < cells.size(); i += seeds)
      if (seen.insert(cells[i].key).second) order.push_back(i);
  return order;
}

// Of "2/8", 1 and 8.
std::pair<std::size_t, std::size_t> shard_of(const std::string& text) {
  const char* end = text.data() + text.size();
  std::size_t part = 0, parts = 0;
  const auto first = std::from_chars(text.data(), end, part);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const bool whole = slash && std::from_chars(first.ptr + 1, end, parts).ptr == end;
  require(whole && 1 <= part && part <= parts, option("shard"), ": '", text,
          "' given, expected I/N with 1 <= I <= N, as 2/8 for the second of eight parts");
  return {part - 1, parts};
}

// Every N-th cell of the order: parts of different stores are disjoint, together they are everything, and
// each has cells of every size.
std::vector<std::size_t> shard_order(std::vector<std::size_t> order, const std::string& shard,
                                     const std::vector<StudyCell>& cells,
                                     const std::set<std::string>& settled) {
  std::erase_if(order, [&](std::size_t i) { return settled.contains(cells[i].key); });
  if (shard.empty()) return order;
  const auto [part, parts] = shard_of(shard);
  std::vector<std::size_t> out;
  for (std::size_t i = part; i < order.size(); i += parts) out.push_back(order[i]);
  return out;
}

// What multiplies the matrices of a cell. A device that is not there is refused before a store is written.
std::string kernels_of(const SystemInfo& info, BackendChoice choice) {
  if (choice != BackendChoice::cuda) return info.blas_core;
  for (const BackendInfo& machine : info.backends)
    require(machine.name != "cuda" || machine.available, option("backend"), ": cuda given: ", machine.reason);
  return "cuda";
}

class Campaign {
 public:
  Campaign(const Study& study, const std::filesystem::path& path, const RunOptions& options,
           const Execution& execution)
      : study_(study),
        path_(path),
        options_(options),
        execution_(execution),
        cells_(make_cells(study)),
        order_(
            shard_order(running_order(cells_, study.seeds.size()), options.shard, cells_, options.settled)) {
    require(options.jobs >= 0, option("jobs"), ": ", options.jobs,
            " given, expected 1 or more (0: one per thread)");
    const int threads = thread_count(execution);
    jobs_ = options.jobs > 0 ? options.jobs : threads;
    cell_execution_.threads = std::max(1, threads / jobs_);
    cell_execution_.max_memory_bytes =
        MemoryBudget(execution).limit_bytes() / static_cast<std::uint64_t>(jobs_);
    cell_execution_.cancelled = [this] { return stop_.load(); };
    cell_execution_.backend = execution.backend;
    const SystemInfo info = system_info(execution);
    blank_.version = info.version;
    blank_.git_commit = info.commit;
    blank_.blas_core = kernels_of(info, execution.backend);
    blank_.host = host_name();
  }

  RunSummary run() {
    Store store = Store::open_to_write(path_);
    look_around(store);  // refuses a damaged store before anything is written
    store.put_study({study_.name, study_.source, options_.command_line});
    const Index failed_before = options_.retry_failed ? 0 : summary_.failed;
    watched_team(
        static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(jobs_), pending_.size())),
        [&](int) { work(); }, [&] { watch(); });
    watch();
    summary_.seconds = seconds_since(start_);
    if (cancelled_)
      throw Error(ErrorCode::interrupted,
                  fmt::format("interrupted: {} of {} cells are finished; the same command goes on from there",
                              summary_.already_done + failed_before + summary_.ran, summary_.total));
    summary_.elsewhere = summary_.total - summary_.already_done - failed_before - summary_.ran;
    summary_.failed = count_failed(store);
    return summary_;
  }

 private:
  void look_around(Store& store) {
    for (const std::size_t index : order_) {
      StudyCell cell = cells_[index];
      store.load(study_.command, cell);
      ++summary_.total;
      summary_.already_done += cell.status == CellStatus::done ? 1 : 0;
      summary_.failed += cell.status == CellStatus::failed ? 1 : 0;
      const bool open = cell.status == CellStatus::missing || cell.status == CellStatus::running;
      if (open || (cell.status == CellStatus::failed && options_.retry_failed)) pending_.push_back(index);
    }
  }

  Index count_failed(Store& store) {
    Index failed = 0;
    for (const std::size_t index : order_) {
      StudyCell cell = cells_[index];
      store.load(study_.command, cell);
      failed += cell.status == CellStatus::failed ? 1 : 0;
    }
    return failed;
  }

  // On a thread of its own, with a connection of its own.
  void work() {
    try {
      Store store = Store::open_to_write(path_);
      while (!stop_) {
        const Store::Claim claim = next(store);
        if (claim.index)
          run(store, *claim.index);
        else if (nothing_left())
          return;
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(100));  // others run what is left
      }
    } catch (...) {
      stop_ = true;
      throw;
    }
  }

  Store::Claim next(Store& store) {
    const std::lock_guard lock(mutex_);
    Store::Claim claim = store.claim(study_.command, cells_, pending_, options_.retry_failed);
    std::vector<std::size_t> gone = claim.settled;
    if (claim.index) gone.push_back(*claim.index), ++in_flight_;
    std::erase_if(pending_,
                  [&](std::size_t i) { return std::find(gone.begin(), gone.end(), i) != gone.end(); });
    return claim;
  }

  bool nothing_left() {
    const std::lock_guard lock(mutex_);
    return pending_.empty();
  }

  void run(Store& store, std::size_t index) {
    StudyCell cell = blank_;
    cell.key = cells_[index].key;
    const auto start = Clock::now();
    try {
      CellResult result = run_cell(study_.command, cells_[index].inputs, cells_[index].seed, cell_execution_);
      cell.status = CellStatus::done;
      cell.outputs = std::move(result.outputs);
      cell.peak_bytes = result.peak_bytes;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) return release(store, cell.key);
      cell.error = error.what();
    } catch (const std::bad_alloc&) {
      cell.error = "out of memory";
    } catch (const std::exception& error) {
      cell.error = error.what();
    }
    if (cell.status != CellStatus::done) cell.status = CellStatus::failed;
    cell.seconds = seconds_since(start);
    store.finish(cell);
    const std::lock_guard lock(mutex_);
    ++summary_.ran;
    --in_flight_;
  }

  static void release(Store& store, const std::string& key) {
    try {
      store.release(key);
    } catch (const Error&) {
      // A claim that stays, on a full disk, is void once this process has ended.
    }
  }

  // On the calling thread: progress, and whether to stop.
  void watch() {
    if (!cancelled_ && execution_.cancelled && execution_.cancelled()) cancelled_ = stop_ = true;
    const std::lock_guard lock(mutex_);
    const Index left = static_cast<Index>(pending_.size()) + in_flight_;
    const Index done = summary_.total - left;
    execution_.report(fmt::format("cells {}/{}", done, summary_.total), static_cast<double>(done),
                      static_cast<double>(summary_.total));
  }

  const Study& study_;
  const std::filesystem::path& path_;
  const RunOptions& options_;
  const Execution& execution_;
  const std::vector<StudyCell> cells_;
  const std::vector<std::size_t> order_;  // of this run's part of the cells
  const Clock::time_point start_ = Clock::now();
  int jobs_ = 1;
  Execution cell_execution_;
  StudyCell blank_;
  std::atomic<bool> stop_{false};
  bool cancelled_ = false;  // of the calling thread only

  std::mutex mutex_;                  // guards what follows while workers run
  std::vector<std::size_t> pending_;  // neither finished nor ours
  Index in_flight_ = 0;
  RunSummary summary_;
};

}  // namespace

RunSummary run_study(const Study& study, const std::filesystem::path& store, const RunOptions& options,
                     const Execution& execution) {
  return Campaign(study, store, options, execution).run();
}

}  // namespace headlens
