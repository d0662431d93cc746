#include "mpi/mpi_communicator.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "mpi/scalapack_grid.hpp"

namespace headlens::mpi {
namespace {

using Clock = std::chrono::steady_clock;  // for waiting only; nothing computed depends on it

constexpr std::size_t kPiece = std::size_t{1} << 26;  // items of one call: MPI counts in int
constexpr std::size_t kWords = 1024;                  // bytes of a rank's last words

}  // namespace

MpiCommunicator::MpiCommunicator(comm::Heeding heeding) : heeding_(heeding) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);  // threads compute, one talks
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  MPI_Comm_dup(MPI_COMM_WORLD, &words_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &neighbours_);
  MPI_Comm_free(&node);
}

std::string MpiCommunicator::name() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find(','));
}

void MpiCommunicator::wait_for(MPI_Request request, const std::function<void()>& pause) {
  waiting_ = true;
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    waiting_ = done == 0;
    if (!waiting_) return;
    heeding_();
    pause();
  }
}

// What moves is there already: no sleep, but whoever else wants this core may have it.
void MpiCommunicator::finish(MPI_Request request) {
  wait_for(request, [] { sched_yield(); });
}

// Other ranks may be at work for long: the longer they are, the longer this one sleeps between two looks.
void MpiCommunicator::meet() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm_, &request);
  const auto start = Clock::now();
  wait_for(request, [start] {
    const auto waited = Clock::now() - start;
    if (waited < std::chrono::milliseconds(1))
      sched_yield();
    else
      std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 50, std::chrono::microseconds(20),
                                                              std::chrono::milliseconds(2)));
  });
}

void MpiCommunicator::reduce(void* values, std::size_t count, MPI_Datatype type, MPI_Op operation) {
  meet();
  int item = 0;
  MPI_Type_size(type, &item);
  exchanged_ += count * static_cast<std::size_t>(item);
  for (std::size_t first = 0; first < count; first += kPiece) {
    const int some = static_cast<int>(std::min(kPiece, count - first));
    char* place = static_cast<char*>(values) + first * static_cast<std::size_t>(item);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ireduce(rank_ == 0 ? MPI_IN_PLACE : place, rank_ == 0 ? place : nullptr, some, type, operation, 0,
                comm_, &request);
    finish(request);
    MPI_Ibcast(place, some, type, 0, comm_, &request);
    finish(request);
  }
}

void MpiCommunicator::broadcast(std::byte* bytes, std::size_t count, int root) {
  for (std::size_t first = 0; first < count; first += kPiece) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(bytes + first, static_cast<int>(std::min(kPiece, count - first)), MPI_BYTE, root, comm_,
               &request);
    finish(request);
  }
}

void MpiCommunicator::gather(std::span<const std::byte> part, const Room& room, bool everywhere) {
  meet();
  std::vector<unsigned long long> sizes(static_cast<std::size_t>(size_));
  const unsigned long long mine = part.size();
  MPI_Allgather(&mine, 1, MPI_UNSIGNED_LONG_LONG, sizes.data(), 1, MPI_UNSIGNED_LONG_LONG, comm_);
  std::size_t total = 0, first = 0;
  for (const auto size : sizes) total += size;
  exchanged_ += total;
  std::byte* all = everywhere || rank_ == 0 ? room(total) : nullptr;
  for (int root = 0; root < size_; ++root) {
    const std::size_t size = sizes[static_cast<std::size_t>(root)];
    if (root == rank_ && all != nullptr) std::copy(part.begin(), part.end(), all + first);
    if (everywhere) broadcast(all + first, size, root);
    for (std::size_t at = 0; !everywhere && root > 0 && at < size; at += kPiece) {
      const int some = static_cast<int>(std::min(kPiece, size - at));
      MPI_Request request = MPI_REQUEST_NULL;
      if (rank_ == root) MPI_Isend(part.data() + at, some, MPI_BYTE, 0, 0, comm_, &request);
      if (rank_ == 0) MPI_Irecv(all + first + at, some, MPI_BYTE, root, 0, comm_, &request);
      finish(request);
    }
    first += size;
  }
}

void MpiCommunicator::pass(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) {
  for (std::size_t at = 0; at < std::max(out.size(), in.size()); at += kPiece) {
    const auto piece = [at](std::size_t size) {
      return static_cast<int>(size > at ? std::min(kPiece, size - at) : 0);
    };
    const int sent = piece(out.size()), got = piece(in.size());
    MPI_Request give = MPI_REQUEST_NULL, take = MPI_REQUEST_NULL;
    if (got > 0) MPI_Irecv(in.data() + at, got, MPI_BYTE, from, 0, comm_, &take);
    if (sent > 0) MPI_Isend(out.data() + at, sent, MPI_BYTE, to, 0, comm_, &give);
    finish(take);
    finish(give);
  }
}

comm::Communicator::Parts MpiCommunicator::exchange(const Parts& to) {
  meet();
  const auto count = static_cast<std::size_t>(size_);
  std::vector<unsigned long long> sent, got(count);
  for (const std::vector<std::byte>& part : to) sent.push_back(part.size());
  MPI_Alltoall(sent.data(), 1, MPI_UNSIGNED_LONG_LONG, got.data(), 1, MPI_UNSIGNED_LONG_LONG, comm_);
  Parts out(count);
  out[static_cast<std::size_t>(rank_)] = to[static_cast<std::size_t>(rank_)];
  for (int shift = 1; shift < size_; ++shift) {
    const int next = (rank_ + shift) % size_, last = (rank_ + size_ - shift) % size_;
    std::vector<std::byte>& in = out[static_cast<std::size_t>(last)];
    in.resize(got[static_cast<std::size_t>(last)]);
    exchanged_ += in.size();
    pass(to[static_cast<std::size_t>(next)], next, in, last);
  }
  return out;
}

comm::Grid& MpiCommunicator::grid() {
  if (!grid_) grid_ = make_scalapack_grid(comm_);
  return *grid_;
}

bool MpiCommunicator::last_words(const std::string& text, double seconds, std::string& first) {
  std::array<char, kWords> mine{};
  std::copy_n(text.begin(), std::min(text.size(), kWords - 1), mine.begin());
  std::vector<char> all(kWords * static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(mine.data(), kWords, MPI_CHAR, all.data(), kWords, MPI_CHAR, words_, &request);
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), done == 0) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (std::size_t r = 0; r < static_cast<std::size_t>(size_) && first.empty(); ++r)
    first = all.data() + r * kWords;
  ends_ = !waiting_;
  return true;
}

void MpiCommunicator::abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

void MpiCommunicator::leave() {
  meet();
  ends_ = true;
}

MpiCommunicator::~MpiCommunicator() {
  grid_.reset();
  if (ends_) MPI_Finalize();
}

}  // namespace headlens::mpi
