// Processes that mpirun started to work on one problem. Every rank runs the same calls: each reads its own
// part of the data, sums go over all ranks, and rank 0 writes. Without mpirun there is one rank, and nothing
// here does anything.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headlens/execution.hpp"

namespace headlens {

int this_rank();
int rank_count();

// Joins the other ranks while this lives. Error if mpirun started several processes and this build has no
// MPI, or if the ranks were started with different words or come from different builds.
class Ranks {
 public:
  explicit Ranks(const std::vector<std::string>& words);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void leave();  // waits for all ranks: none is missed afterwards

  // This rank has failed. Where all have, rank 0 hands the text of the first of them to `say`, and none ends
  // before. Where others go on working, they are ended, after the text was handed to `say`. What comes back
  // is still to be said: by a process that mpirun did not start.
  std::string fail(const std::string& text, int status, const std::function<void(const std::string&)>& say);

 private:
  struct Joined;
  std::unique_ptr<Joined> joined_;
};

// On rank 0 alone, or on every rank; what is thrown on one rank is thrown on all.
void on_first_rank(const std::function<void()>& act);
void on_every_rank(const std::function<void()>& act);

// The same limit of memory on every rank, the smallest: what was given counts per rank, else what is free is
// divided among the ranks of a machine, as are its cores. Notes and progress come from rank 0.
Execution shared_execution(const Execution& wanted);

// Of all sums and gathers so far, the size of what every rank got; without the factorisations of ScaLAPACK.
std::uint64_t exchanged_bytes();

// MPI, and why it cannot be used if it cannot.
struct MpiInfo {
  bool available = false;
  std::string reason;
};
MpiInfo mpi_info();

}  // namespace headlens
