#include "mpi/scalapack_grid.hpp"

#include <algorithm>
#include <array>
#include <vector>

// ScaLAPACK has no header.
extern "C" {
int Csys2blacs_handle(MPI_Comm comm);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridexit(int context);
void Cblacs_set(int context, int what, int* value);
int numroc_(const int* n, const int* block, const int* process, const int* source, const int* processes);
void descinit_(int* descriptor, const int* m, const int* n, const int* mb, const int* nb, const int* row,
               const int* column, const int* context, const int* lead, int* info);
void pdpotrf_(const char* uplo, const int* n, double* a, const int* ia, const int* ja, const int* desca,
              int* info);
void pdpotrs_(const char* uplo, const int* n, const int* nrhs, const double* a, const int* ia, const int* ja,
              const int* desca, double* b, const int* ib, const int* jb, const int* descb, int* info);
void pdsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* ia, const int* ja,
              const int* desca, double* w, double* z, const int* iz, const int* jz, const int* descz,
              double* work, const int* lwork, int* iwork, const int* liwork, int* info);
}

namespace headlens::mpi {
namespace {

constexpr int kOne = 1, kZero = 0;
constexpr int kRepeatable = 15;  // BLACS: sums in an order that does not depend on arrival
using Descriptor = std::array<int, 9>;

class ScalapackGrid final : public comm::Grid {
 public:
  explicit ScalapackGrid(MPI_Comm comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    place_ = comm::place_on_grid(rank_, size_, 1);
    context_ = Csys2blacs_handle(comm);
    Cblacs_gridinit(&context_, "Row", place_.rows, place_.columns);
    int yes = 1;
    Cblacs_set(context_, kRepeatable, &yes);
  }
  ~ScalapackGrid() override { Cblacs_gridexit(context_); }
  ScalapackGrid(const ScalapackGrid&) = delete;
  ScalapackGrid& operator=(const ScalapackGrid&) = delete;

  comm::GridPlace place(std::int64_t n) const override { return comm::place_on_grid(rank_, size_, n); }

  bool cholesky(double* a, std::int64_t n) override {
    const int size = static_cast<int>(n);
    const Descriptor layout = descriptor(size, size);
    int info = 0;
    pdpotrf_("L", &size, a, &kOne, &kOne, layout.data(), &info);
    return info == 0;
  }

  void cholesky_solve(const double* a, std::int64_t n, double* b, std::int64_t q) override {
    const int size = static_cast<int>(n), columns = static_cast<int>(q);
    const Descriptor layout = descriptor(size, size), right = descriptor(size, columns);
    int info = 0;
    pdpotrs_("L", &size, &columns, a, &kOne, &kOne, layout.data(), b, &kOne, &kOne, right.data(), &info);
  }

  bool eigen(double* a, std::int64_t n, double* values, double* vectors) override {
    const int size = static_cast<int>(n);
    const Descriptor layout = descriptor(size, size);
    std::vector<double> work(1);
    std::vector<int> whole(1);
    int info = 0;
    for (const bool ask : {true, false}) {
      const int length = ask ? -1 : static_cast<int>(work.size()),
                wholes = ask ? -1 : static_cast<int>(whole.size());
      pdsyevd_("V", "L", &size, a, &kOne, &kOne, layout.data(), values, vectors, &kOne, &kOne, layout.data(),
               work.data(), &length, whole.data(), &wholes, &info);
      if (!ask) break;
      work.resize(static_cast<std::size_t>(std::max(work[0], eigen_items(size))));
      whole.resize(static_cast<std::size_t>(std::max(whole[0], 7 * size + 8 * place_.columns + 2)));
    }
    return info == 0;
  }

  double eigen_bytes(std::int64_t n) const override {
    const int size = static_cast<int>(n);
    return 8 * (eigen_items(size) + static_cast<double>(local_rows(size)) * local_columns(size)) +
           28.0 * size;
  }

 private:
  int block(int n) const { return static_cast<int>(place(n).block); }
  int local_rows(int n) const {
    const int edge = block(n);
    return numroc_(&n, &edge, &place_.row, &kZero, &place_.rows);
  }
  int local_columns(int n) const {
    const int edge = block(n);
    return numroc_(&n, &edge, &place_.column, &kZero, &place_.columns);
  }
  // The length that pdsyevd's page gives, with room for what it forgets.
  double eigen_items(int n) const {
    const double rows = local_rows(n), columns = local_columns(n), edge = block(n);
    const double reduction = std::max(3 * n + edge * (rows + 1), 3.0 * n);
    return std::max(1 + 6.0 * n + 2 * rows * columns, reduction) + 2.0 * n + 4 * edge * edge;
  }
  Descriptor descriptor(int rows, int columns) const {
    Descriptor out{};
    const int edge = block(rows), lead = std::max(1, local_rows(rows));
    int info = 0;
    descinit_(out.data(), &rows, &columns, &edge, &edge, &kZero, &kZero, &context_, &lead, &info);
    return out;
  }

  int rank_ = 0, size_ = 1, context_ = 0;
  comm::GridPlace place_;  // blocks aside
};

}  // namespace

std::unique_ptr<comm::Grid> make_scalapack_grid(MPI_Comm comm) {
  return std::make_unique<ScalapackGrid>(comm);
}

}  // namespace headlens::mpi
