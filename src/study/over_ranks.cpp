// A study over ranks: every rank runs a shard into a store of its own, beside the one that is asked for, and
// rank 0 merges these parts. A part outlives its process: whatever ends a run, the next one merges what is
// there before it begins.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "comm/communicator.hpp"
#include "headlens/error.hpp"
#include "headlens/ranks.hpp"
#include "io/atomic_file.hpp"
#include "io/printable.hpp"
#include "study/grid.hpp"
#include "study/store.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPart = ".rank-";

fs::path part_of(const fs::path& store, Index rank) { return join(store.string(), kPart, rank); }

// Parts that lie here and that this rank looks after: its own, and those of ranks that are no more.
std::vector<fs::path> parts_here(const fs::path& store, comm::Communicator& ranks) {
  const std::string prefix = store.filename().string() + kPart;
  const fs::path folder = store.has_parent_path() ? store.parent_path() : ".";
  std::vector<fs::path> out;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.size() > prefix.size() + 9) continue;
    const std::string number = name.substr(prefix.size());
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) continue;
    if (std::stoll(number) % ranks.size() == ranks.rank()) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
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

void remove_store(const fs::path& path) {
  for (const char* end : {"", "-wal", "-shm"}) fs::remove(join(path.string(), end));
}

// On rank 0: one store after the other into `store`.
void merge_bytes(const std::vector<std::byte>& all, const std::vector<std::uint64_t>& sizes,
                 const fs::path& store, const std::string& command_line) {
  const fs::path received = store.string() + ".received";
  std::size_t at = 0;
  for (const std::uint64_t size : sizes) {
    if (size == 0) continue;
    {
      io::AtomicFile file(received);
      file.write(all.data() + at, size);
      file.commit();
    }
    at += size;
    merge_studies({received}, store, command_line);
    remove_store(received);
  }
}

// The parts of all ranks become one with `store` on rank 0, and are removed.
void collect_parts(const fs::path& store, const std::string& command_line, comm::Communicator& ranks) {
  std::vector<fs::path> here = parts_here(store, ranks);
  while (ranks.least(-static_cast<double>(here.size())) < 0) {
    std::vector<std::byte> mine, all;
    ranks.together([&] {
      if (!here.empty()) mine = bytes_of(here.back());
    });
    const std::uint64_t size = mine.size();
    const std::vector<std::uint64_t> sizes = comm::gather(ranks, std::span<const std::uint64_t>(&size, 1));
    ranks.gather_on_first(mine, [&](std::size_t bytes) {
      all.resize(bytes);
      return all.data();
    });
    ranks.together([&] {
      if (ranks.rank() == 0) merge_bytes(all, sizes, store, command_line);
    });
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

RunSummary run_study_over_ranks(const Study& study, const fs::path& store, const RunOptions& options,
                                const Execution& execution) {
  comm::Communicator& ranks = comm::world();
  require(ranks.alone() || options.shard.empty(), option("shard"), ": ", options.shard,
          " given, but over ranks every rank has a shard of its own: leave out ", option("shard"));
  collect_parts(store, options.command_line, ranks);
  if (ranks.alone()) return run_study(study, store, options, execution);
  Known before;
  ranks.together([&] {
    if (ranks.rank() == 0) before = look_into(study, store, options);
  });
  RunOptions own = options;
  own.shard = join(ranks.rank() + 1, "/", ranks.size());
  own.settled = shared_keys(before.settled, ranks);
  RunSummary mine;
  {
    const comm::Replacement alone(comm::serial());  // a cell belongs to one rank
    mine = run_study(study, part_of(store, ranks.rank()), own, execution);
  }
  RunSummary out = before.summary;
  out.ran = static_cast<Index>(ranks.sum(static_cast<double>(mine.ran)));
  out.seconds = mine.seconds;
  collect_parts(store, options.command_line, ranks);
  ranks.together([&] {
    if (ranks.rank() == 0) out.failed = look_into(study, store, options).summary.failed;
  });
  return out;
}

}  // namespace headlens
