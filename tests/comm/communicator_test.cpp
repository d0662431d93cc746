// What every communicator promises, on threads: the functions that are built from sums and gathers, and rows
// that move between ranks. tests/cli/test_ranks.py runs the same on MPI.
#include <gtest/gtest.h>

#include <map>
#include <set>

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

// A fatal failure of a test returns from a rank: the others must not wait for it.
TEST(ThreadRanks, ARankThatLeavesEarlyEndsTheOthers) {
  for (const int size : {2, 3, 5})
    EXPECT_THROW(on_ranks(size,
                          [](comm::Communicator& ranks) {
                            EXPECT_EQ(ranks.sum(1.0), ranks.size());
                            if (ranks.rank() == 1) return;
                            ranks.sum(1.0);
                            ADD_FAILURE() << "rank " << ranks.rank() << " goes on alone";
                          }),
                 reference::Left);
}

TEST(ThreadRanks, WhatOneRankThrowsIsThrown) {
  for (const int thrower : {0, 1, 2}) try {
      on_ranks(3, [thrower](comm::Communicator& ranks) {
        const std::vector<double> mine(1000, ranks.rank());  // gone once the rank has thrown
        if (ranks.rank() == thrower) throw Bug("why");
        (void)comm::gather(ranks, std::span<const double>(mine));
        ADD_FAILURE() << "rank " << ranks.rank() << " reads what is gone";
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Bug& bug) {
      EXPECT_STREQ(bug.what(), "why");
    }
}

TEST(ThreadRanks, ArraysOfDifferentLengthsEndAllRanks) {
  EXPECT_THROW(on_ranks(3,
                        [](comm::Communicator& ranks) {
                          std::vector<double> mine(ranks.rank() == 2 ? 3000 : 2000);
                          ranks.sum(std::span<double>(mine));
                        }),
               Bug);
}

TEST(Grid, IsNearestToASquareAndHasBlocksForAll) {
  for (const auto& [ranks, rows] :
       std::map<int, int>{{1, 1}, {2, 1}, {6, 2}, {7, 1}, {9, 3}, {12, 3}, {64, 8}}) {
    std::set<std::pair<int, int>> places;
    for (int rank = 0; rank < ranks; ++rank) {
      const comm::GridPlace place = comm::place_on_grid(rank, ranks, 100000);
      EXPECT_EQ(place.rows, rows);
      EXPECT_EQ(place.rows * place.columns, ranks);
      EXPECT_EQ(place.block, 64);
      EXPECT_TRUE(place.row < place.rows && place.column < place.columns);
      places.insert({place.row, place.column});
    }
    EXPECT_EQ(std::ssize(places), ranks);
  }
  EXPECT_EQ(comm::place_on_grid(0, 9, 5).block, 1);
}

}  // namespace
}  // namespace headlens
