// Ranks of MPI. Collectives are started, and then waited for with the question whether to stop in between:
// MPI's own waiting would hear neither Ctrl-C nor that another rank has given up.
//
// Sums go to rank 0 and come back from there, so that all ranks have the same bits. The order of the
// additions is that of MPI's tree, which the number of ranks and the length decide: same ranks, same bits.
#pragma once

#include <mpi.h>

#include <functional>

#include "comm/communicator.hpp"
#include "comm/plugin.hpp"

namespace headlens::mpi {

class MpiCommunicator final : public comm::Communicator {
 public:
  explicit MpiCommunicator(comm::Heeding heeding);
  ~MpiCommunicator() override;  // ends MPI, where all ranks have agreed on that

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int neighbours() const override { return neighbours_; }
  std::string name() const override;
  void sum(std::span<double> values) override { reduce(values.data(), values.size(), MPI_DOUBLE, MPI_SUM); }
  void sum(std::span<float> values) override { reduce(values.data(), values.size(), MPI_FLOAT, MPI_SUM); }
  void least(std::span<double> values) override { reduce(values.data(), values.size(), MPI_DOUBLE, MPI_MIN); }
  void gather(std::span<const std::byte> part, const Room& room) override { gather(part, room, true); }
  void gather_on_first(std::span<const std::byte> part, const Room& room) override {
    gather(part, room, false);
  }
  Parts exchange(const Parts& to) override;
  comm::Grid& grid() override;
  std::uint64_t exchanged_bytes() const override { return exchanged_; }
  bool last_words(const std::string& text, double seconds, std::string& first) override;
  void abort(int status) override;
  void leave() override;

 private:
  void reduce(void* values, std::size_t count, MPI_Datatype type, MPI_Op operation);
  void gather(std::span<const std::byte> part, const Room& room, bool everywhere);
  void broadcast(std::byte* bytes, std::size_t count, int root);
  // To rank `to` and from rank `from` at once.
  void pass(std::span<const std::byte> out, int to, std::span<std::byte> in, int from);
  void meet();  // waits until all ranks are here, with sleep
  void finish(MPI_Request request);
  void wait_for(MPI_Request request, const std::function<void()>& pause);

  comm::Heeding heeding_;
  MPI_Comm comm_ = MPI_COMM_NULL, words_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, neighbours_ = 1;
  std::uint64_t exchanged_ = 0;
  bool ends_ = false;
  bool waiting_ = false;  // also after a wait that was given up: MPI cannot be ended in order then
  std::unique_ptr<comm::Grid> grid_;
};

}  // namespace headlens::mpi
