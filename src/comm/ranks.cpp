#include "headlens/ranks.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "comm/communicator.hpp"
#include "comm/plugin.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

constexpr double kPatienceSeconds = 3;  // for other ranks to fail, too

// Texts of all ranks must be equal.
void require_equal(comm::Communicator& ranks, const std::string& text, const char* what) {
  const std::vector<std::string> all = ranks.gather_texts(text);
  for (std::size_t r = 1; r < all.size(); ++r)
    require(all[r] == all[0], "rank ", r, " was started with ", what, " '", all[r], "', rank 0 with '",
            all[0], "': all ranks need the same");
}

}  // namespace

struct Ranks::Joined {
  explicit Joined(std::unique_ptr<comm::Communicator> all) : ranks(std::move(all)), world(*ranks) {}
  std::unique_ptr<comm::Communicator> ranks;
  comm::Replacement world;
  bool left = false;
};

int this_rank() { return comm::world().alone() ? comm::announced_rank() : comm::world().rank(); }
int rank_count() { return comm::world().size(); }

Ranks::Ranks(const std::vector<std::string>& words) {
  if (comm::announced_ranks() <= 1) return;
  joined_ = std::make_unique<Joined>(comm::open_plugin());
  comm::Communicator& ranks = *joined_->ranks;
  // Results come from rank 0; errors may come from any.
  if (ranks.rank() > 0 && std::freopen("/dev/null", "w", stdout) == nullptr) return;
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  require_equal(ranks, comm::handshake(), "the build");
  require_equal(ranks, line, "the words");
}

Ranks::~Ranks() = default;

void Ranks::leave() {
  if (!joined_ || joined_->left) return;
  joined_->ranks->leave();
  joined_->left = true;
}

std::string Ranks::fail(const std::string& text, int status,
                        const std::function<void(const std::string&)>& say) {
  if (!joined_) return this_rank() == 0 ? text : "";
  comm::Communicator& ranks = *joined_->ranks;
  std::string first;
  if (ranks.last_words(text, kPatienceSeconds, first)) {
    if (ranks.rank() == 0) say(first);
    // mpirun ends all ranks when the first of them has ended: none does before the line is said.
    std::string none;
    ranks.last_words("", kPatienceSeconds, none);
    return "";
  }
  say(join("rank ", ranks.rank(), ": ", text));
  ranks.abort(status);  // does not return
  return "";
}

void on_first_rank(const std::function<void()>& act) {
  comm::Communicator& ranks = comm::world();
  ranks.together([&] {
    if (ranks.rank() > 0) return;
    const comm::Replacement alone(comm::serial());  // nobody answers what `act` would ask of others
    act();
  });
}

void on_every_rank(const std::function<void()>& act) { comm::world().together(act); }

Execution shared_execution(const Execution& wanted) {
  comm::Communicator& ranks = comm::world();
  Execution out = wanted;
  if (ranks.alone()) return out;
  const auto neighbours = static_cast<std::uint64_t>(ranks.neighbours());
  if (out.max_memory_bytes == 0) out.max_memory_bytes = MemoryBudget(out).limit_bytes() / neighbours;
  out.max_memory_bytes = static_cast<std::uint64_t>(ranks.least(static_cast<double>(out.max_memory_bytes)));
  if (out.threads == 0) out.threads = std::max(1, thread_count(out) / ranks.neighbours());
  if (ranks.rank() > 0) out.log = nullptr, out.progress = nullptr;
  return out;
}

std::uint64_t exchanged_bytes() { return comm::world().exchanged_bytes(); }

MpiInfo mpi_info() {
  const comm::PluginInfo info = comm::plugin_info();
  return {info.available, info.reason};
}

}  // namespace headlens
