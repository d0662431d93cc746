// What every communicator promises, on threads: the functions that are built from sums and gathers, and rows
// that move between ranks. tests/cli/test_ranks.py runs the same on MPI.
#include <gtest/gtest.h>

#include "comm/gather_rows.hpp"
#include "headlens/error.hpp"
#include "reference/thread_ranks.hpp"

namespace headlens {
namespace {

using reference::on_ranks;

constexpr int kSizes[] = {1, 2, 3, 5};

// Rows r, r + 100, .. of rank r, as many as its number.
Array rows_of(Index rank, Index count) {
  Array out(DType::f64, {count, 2});
  for (Index i = 0; i < count; ++i)
    for (Index j = 0; j < 2; ++j)
      out.data<double>()[2 * i + j] = static_cast<double>(1000 * j + 100 * i + rank);
  return out;
}

TEST(Communicator, SumsLeastAndFirstAreThoseOfAllRanks) {
  for (const int size : kSizes)
    on_ranks(size, [size](comm::Communicator& ranks) {
      const double r = ranks.rank();
      EXPECT_EQ(ranks.sum(r + 1), size * (size + 1) / 2);
      EXPECT_EQ(ranks.least(-r), 1 - size);
      EXPECT_EQ(ranks.of_first(r + 7), 7);
    });
}

TEST(Communicator, TextsOfAnyLengthComeInOrder) {
  for (const int size : kSizes)
    on_ranks(size, [size](comm::Communicator& ranks) {
      const std::vector<std::string> all =
          ranks.gather_texts(std::string(static_cast<std::size_t>(ranks.rank()), 'x'));
      ASSERT_EQ(std::ssize(all), size);
      for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(r, 'x'));
    });
}

TEST(Communicator, AnErrorOnSomeRanksIsThrownOnAllAndIsThatOfTheFirst) {
  for (const int size : {2, 3, 5})
    on_ranks(size, [](comm::Communicator& ranks) {
      try {
        ranks.together([&] { require(ranks.rank() == 0, "rank ", ranks.rank(), " fails"); });
        FAIL() << "nothing was thrown on rank " << ranks.rank();
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "rank 1 fails");
      }
      EXPECT_EQ(ranks.sum(1.0), ranks.size()) << "ranks are out of step";
    });
}

TEST(Communicator, RowsAreGatheredInOrder) {
  for (const int size : kSizes)
    on_ranks(size, [size](comm::Communicator& ranks) {
      const Array mine = rows_of(ranks.rank(), ranks.rank());
      const Array all = comm::gather_rows(mine, ranks), first = comm::gather_rows_on_first(mine, ranks);
      ASSERT_EQ(all.dim(0), size * (size - 1) / 2);
      EXPECT_EQ(first.dim(0), ranks.rank() == 0 ? all.dim(0) : 0);
      Index row = 0;
      for (Index r = 0; r < size; ++r)
        for (Index i = 0; i < r; ++i, ++row) {
          EXPECT_EQ(all.data<double>()[2 * row], static_cast<double>(100 * i + r));
          EXPECT_EQ(all.data<double>()[2 * row + 1], static_cast<double>(1000 + 100 * i + r));
        }
    });
}

TEST(Communicator, RowsAreExchangedAndCounted) {
  for (const int size : kSizes)
    on_ranks(size, [size](comm::Communicator& ranks) {
      std::vector<Array> to;  // r + t rows from rank r to rank t
      for (Index t = 0; t < size; ++t) to.push_back(rows_of(10 * t + ranks.rank(), ranks.rank() + t));
      const std::uint64_t before = ranks.exchanged_bytes();
      const Array got = comm::exchange_rows(to, ranks);
      Index row = 0, from_others = 0;
      for (Index r = 0; r < size; ++r)
        for (Index i = 0; i < r + ranks.rank(); ++i, ++row) {
          ASSERT_LT(row, got.dim(0));
          EXPECT_EQ(got.data<double>()[2 * row], static_cast<double>(100 * i + 10 * ranks.rank() + r));
          from_others += r == ranks.rank() ? 0 : 1;
        }
      EXPECT_EQ(row, got.dim(0));
      EXPECT_EQ(ranks.exchanged_bytes() - before, static_cast<std::uint64_t>(16 * from_others));
    });
}

}  // namespace
}  // namespace headlens
