// A study over ranks: every rank runs a shard into a store of its own, beside the one that is asked for, and
// rank 0 merges these parts. A part outlives its process: whatever ends a run, the next one merges what is
// there before it begins.
#include "study/over_ranks.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "headlens/error.hpp"
#include "io/atomic_file.hpp"
#include "io/printable.hpp"
#include "study/grid.hpp"
#include "study/process.hpp"
#include "study/run_lock.hpp"
#include "study/store.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPart = ".rank-";

fs::path part_of(const fs::path& store, Index rank) { return join(store.string(), kPart, rank); }

fs::path folder_of(const fs::path& store) { return store.has_parent_path() ? store.parent_path() : "."; }

// The ranks whose stores lie in one folder of one machine: they share the parts that lie there.
struct Companions {
  std::size_t count = 0, place = 0;  // how many they are, and which of them this rank is
};

Companions companions_of(const fs::path& store, comm::Communicator& ranks) {
  struct stat folder {};  // stays empty if there is none, which is refused in a moment
  (void)::stat(folder_of(store).c_str(), &folder);
  const std::vector<std::string> all = ranks.gather_texts(
      join(boot_id(), " ", folder.st_dev, " ", folder.st_ino, " ", store.filename().string()));
  const auto mine = all.begin() + ranks.rank();
  return {static_cast<std::size_t>(std::count(all.begin(), all.end(), *mine)),
          static_cast<std::size_t>(std::count(all.begin(), mine, *mine))};
}

// Parts that lie here, of this run or of one with other ranks, and that this rank looks after.
std::vector<fs::path> parts_here(const fs::path& store, const Companions& companions) {
  const std::string prefix = store.filename().string() + kPart;
  std::vector<fs::path> all, out;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(store), none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.size() > prefix.size() + 9) continue;
    const std::string number = name.substr(prefix.size());
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) continue;
    all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = companions.place; i < all.size(); i += companions.count) out.push_back(all[i]);
  return out;
}

std::vector<std::byte> bytes_of(const fs::path& path) {
  { const Store settled = Store::open_to_write(path); }  // what lies in its log goes into the file
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> out;
  std::transform(std::istreambuf_iterator<char>(file), {}, std::back_inserter(out),
                 [](char c) { return static_cast<std::byte>(c); });
  require(file.good() || file.eof(), "cannot read ", io::printable(path.string()));
  return out;
}

// A part that cannot be removed is merged again by the next run, which changes nothing.
void remove_store(const fs::path& path) {
  std::error_code none;
  for (const char* end : {"", "-wal", "-shm"}) fs::remove(join(path.string(), end), none);
}

// A part on its way to rank 0.
struct Part {
  std::string shown;  // "RESULTS.db.rank-3 on node7"; empty if this rank has no more
  std::uint64_t size = 0;
};

// On rank 0: what lies in the bytes of a part goes into `store`.
void merge_part(const std::byte* bytes, const Part& part, const fs::path& store,
                const std::string& command_line) {
  struct Copy {
    fs::path path;
    ~Copy() { remove_store(path); }
  };
  const Copy copy{store.string() + ".received"};
  try {
    io::AtomicFile file(copy.path);
    file.write(bytes, part.size);
    file.commit();
    merge_studies({copy.path}, store, command_line);
  } catch (const Error& error) {
    throw Error(error.code(), join(part.shown, " cannot be merged and stays: ", error.what()));
  }
}

// The last parts of all ranks become one with `store` on rank 0.
void merge_last(const std::vector<fs::path>& here, const fs::path& store, const std::string& command_line,
                comm::Communicator& ranks) {
  std::vector<std::byte> mine, all;
  ranks.together([&] {
    if (!here.empty()) mine = bytes_of(here.back());
  });
  const std::uint64_t size = mine.size();
  const std::vector<std::uint64_t> sizes = comm::gather(ranks, std::span<const std::uint64_t>(&size, 1));
  const std::vector<std::string> names =
      ranks.gather_texts(here.empty() ? "" : join(io::printable(here.back().string()), " on ", host_name()));
  ranks.gather_on_first(mine, [&](std::size_t bytes) {
    all.resize(bytes);
    return all.data();
  });
  ranks.together([&] {
    const std::byte* next = all.data();
    for (std::size_t r = 0; r < sizes.size() && ranks.rank() == 0; next += sizes[r++])
      if (sizes[r] > 0) merge_part(next, {names[r], sizes[r]}, store, command_line);
  });
}

// The parts of all ranks become one with `store` on rank 0, and are removed.
void collect_parts(const fs::path& store, const std::string& command_line, const Companions& companions,
                   comm::Communicator& ranks) {
  std::vector<fs::path> here = parts_here(store, companions);
  while (ranks.least(-static_cast<double>(here.size())) < 0) {
    merge_last(here, store, command_line, ranks);
    if (here.empty()) continue;
    remove_store(here.back());
    here.pop_back();
  }
}

// What rank 0 knows of every cell.
struct Known {
  RunSummary summary;
  std::set<std::string> settled;  // keys of cells that need not be run
};
Known look_into(const Study& study, const fs::path& path, const RunOptions& options) {
  Known out;
  Store store = Store::open_to_write(path);
  store.put_study({study.name, study.source, options.command_line});
  std::set<std::string> seen;
  for (StudyCell& cell : make_cells(study)) {
    if (!seen.insert(cell.key).second) continue;
    store.load(study.command, cell);
    ++out.summary.total;
    out.summary.already_done += cell.status == CellStatus::done ? 1 : 0;
    out.summary.failed += cell.status == CellStatus::failed ? 1 : 0;
    if (cell.status == CellStatus::done || (cell.status == CellStatus::failed && !options.retry_failed))
      out.settled.insert(cell.key);
  }
  return out;
}

// The keys that rank 0 has, on every rank.
std::set<std::string> shared_keys(const std::set<std::string>& keys, comm::Communicator& ranks) {
  std::string text;
  for (const std::string& key : keys) text += key + "\n";
  std::set<std::string> out;
  const std::string all = ranks.gather_texts(ranks.rank() == 0 ? text : "").front();
  for (std::size_t from = 0, to = 0; (to = all.find('\n', from)) != std::string::npos; from = to + 1)
    out.insert(all.substr(from, to - from));
  return out;
}

}  // namespace

RunSummary run_study_over(comm::Communicator& ranks, const Study& study, const fs::path& store,
                          const RunOptions& options, const Execution& execution) {
  require(ranks.alone() || options.shard.empty(), option("shard"), ": ", options.shard,
          " given, but over ranks every rank has a shard of its own: leave out ", option("shard"));
  const Companions companions = companions_of(store, ranks);
  RunLock lock(store);
  ranks.together([&] {
    if (companions.place == 0) lock.begin();
  });
  ranks.together([&] {
    if (companions.place > 0) lock.join_in();
  });
  collect_parts(store, options.command_line, companions, ranks);
  if (ranks.alone()) return run_study(study, store, options, execution);
  Known before;
  ranks.together([&] {
    if (ranks.rank() == 0) before = look_into(study, store, options);
  });
  RunOptions own = options;
  own.shard = join(ranks.rank() + 1, "/", ranks.size());
  own.settled = shared_keys(before.settled, ranks);
  const RunSummary mine = run_study(study, part_of(store, ranks.rank()), own, execution);
  RunSummary out = before.summary;
  out.ran = static_cast<Index>(ranks.sum(static_cast<double>(mine.ran)));
  out.seconds = mine.seconds;
  collect_parts(store, options.command_line, companions, ranks);
  ranks.together([&] {
    if (ranks.rank() == 0) out.failed = look_into(study, store, options).summary.failed;
  });
  return out;
}

RunSummary run_study_over_ranks(const Study& study, const fs::path& store, const RunOptions& options,
                                const Execution& execution) {
  comm::Communicator& ranks = comm::world();
  const comm::Replacement alone(comm::serial());  // a cell belongs to one rank
  return run_study_over(ranks, study, store, options, execution);
}

}  // namespace headlens
