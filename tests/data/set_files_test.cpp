// Several files as one list of sets, and a file from a row on.
#include <gtest/gtest.h>

#include "data/concatenate.hpp"
#include "data/data_files.hpp"
#include "data/set_file_reader.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "io/files.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;

class SetFilesTest : public test::FolderTest {
 protected:
  // Sets [first, last) of a fixed list; every seventh has more keys if ragged.
  void save(const fs::path& path, Index first, Index last, bool ragged, Index dim = 3) {
    std::vector<double> query, keys, y;
    std::vector<std::int64_t> offsets{0};
    for (Index i = first; i < last; ++i) {
      const Index count = ragged && i % 7 == 0 ? 4 : 2;
      for (Index j = 0; j < dim; ++j) query.push_back(static_cast<double>(i) + 0.1 * static_cast<double>(j));
      for (Index j = 0; j < count * dim; ++j)
        keys.push_back(static_cast<double>(i) - 0.2 * static_cast<double>(j));
      offsets.push_back(offsets.back() + count);
      y.push_back(static_cast<double>(i));
    }
    const Index n = last - first;
    NamedArrays arrays;
    arrays["query"] = Array::from(query, {n, dim});
    arrays["keys"] = Array::from(keys, ragged ? std::vector<Index>{static_cast<Index>(offsets.back()), dim}
                                              : std::vector<Index>{n, 2, dim});
    if (ragged) arrays["offsets"] = Array::from(offsets, {n + 1});
    arrays["y"] = Array::from(y, {n});
    write_npz(path, arrays);
  }

  static void expect_same(const LabelledSets& a, const LabelledSets& b) {
    ASSERT_EQ(a.sets.count(), b.sets.count());
    EXPECT_EQ(a.targets.values, b.targets.values);
    EXPECT_EQ(a.targets.shape, b.targets.shape);
    for (Index i = 0; i < a.sets.count(); ++i) {
      ASSERT_EQ(a.sets.keys_of(i), b.sets.keys_of(i)) << i;
      std::vector<double> left(15), right(15);
      a.sets.copy_set(i, left.data(), left.data() + 3, 3);
      b.sets.copy_set(i, right.data(), right.data() + 3, 3);
      EXPECT_EQ(left, right) << i;
    }
  }
};

TEST_F(SetFilesTest, FoldersAndPatternsAreOneListInTheOrderOfNames) {
  for (const bool ragged : {false, true}) {
    const fs::path parts = folder / (ragged ? "ragged" : "equal");
    fs::create_directory(parts);
    save(folder / "all.npz", 0, 30, ragged);
    save(parts / "b.npz", 10, 11, ragged);
    save(parts / "c.npz", 11, 30, ragged);
    save(parts / "a.npz", 0, 10, ragged);
    const LabelledSets whole = load_labelled_sets(folder / "all.npz", DataLayout::sets, {});
    expect_same(load_labelled_sets(parts, DataLayout::sets, {}), whole);
    expect_same(load_labelled_sets(parts / "?.npz", DataLayout::sets, {}), whole);
    for (const Index step : {1, 4, 30}) {
      SetReader reader(parts, DataLayout::sets, Labels::needed, {});
      EXPECT_EQ(reader.count(), 30);
      std::vector<LabelledSets> blocks;
      while (reader.remaining() > 0) blocks.push_back(reader.next(step).data);
      expect_same(concatenate(std::move(blocks)), whole);
    }
  }
}

TEST_F(SetFilesTest, AFileFromARowOn) {
  for (const bool ragged : {false, true}) {
    save(folder / "all.npz", 0, 30, ragged);
    for (const Index from : {0, 1, 17, 29}) {
      save(folder / "rest.npz", from, 30, ragged);
      SetFileReader reader(folder / "all.npz", DataLayout::sets, Labels::needed, {});
      reader.start_at(from);
      expect_same(reader.next(30 - from), load_labelled_sets(folder / "rest.npz", DataLayout::sets, {}));
      reader.finish();
    }
  }
}

TEST_F(SetFilesTest, WhatDoesNotFitTogetherIsRefused) {
  fs::create_directory(folder / "parts");
  test::expect_error([&] { load_labelled_sets(folder / "parts", DataLayout::sets, {}); },
                     {"holds no .npz file"}, ErrorCode::environment);
  test::expect_error([&] { load_labelled_sets(folder / "parts" / "*.npz", DataLayout::sets, {}); },
                     {"no file matches"}, ErrorCode::environment);
  save(folder / "parts" / "a.npz", 0, 10, false);
  save(folder / "parts" / "b.npz", 10, 20, false, 4);
  test::expect_error([&] { load_labelled_sets(folder / "parts", DataLayout::sets, {}); },
                     {"b.npz", "coordinates of a token is 4", "a.npz it is 3"});
}

}  // namespace
}  // namespace headlens
