#include "headlens/set_reader.hpp"

#include <algorithm>

#include "comm/communicator.hpp"
#include "data/concatenate.hpp"
#include "data/data_files.hpp"
#include "data/set_file_reader.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;

// Every rank looks at some of the files, and all learn what was found.
std::vector<FileFacts> survey(const std::vector<fs::path>& files, DataLayout layout, Labels labels,
                              const Execution& execution, comm::Communicator& ranks) {
  const auto size = static_cast<std::size_t>(ranks.size()), rank = static_cast<std::size_t>(ranks.rank());
  std::vector<FileFacts> mine;
  ranks.together([&] {
    for (std::size_t i = rank; i < files.size(); i += size)
      mine.push_back(SetFileReader(files[i], layout, labels, execution).facts());
  });
  const std::vector<FileFacts> all = comm::gather(ranks, std::span<const FileFacts>(mine));
  // Rank r has told of the files r, r + R, ...
  std::vector<FileFacts> out(files.size());
  std::size_t next = 0;
  for (std::size_t r = 0; r < size; ++r)
    for (std::size_t i = r; i < files.size(); i += size) out[i] = all.at(next++);
  return out;
}

void check_alike(const FileFacts& a, const FileFacts& b, const fs::path& first, const fs::path& file) {
  const auto same = [&](Index x, Index y, const char* what) {
    require(x == y, file.string(), ": ", what, " is ", y, ", in ", first.string(), " it is ", x);
  };
  same(a.dim, b.dim, "the number of coordinates of a token");
  same(a.sequence_length, b.sequence_length, "the length of the sequences");
  same(a.outputs, b.outputs, "the number of outputs of y");
  same(a.target_axes, b.target_axes, "the number of axes of y");
  require(a.double_tokens == b.double_tokens, file.string(), ": query or keys have another type than in ",
          first.string(), ": save all files with one type");
}

void check_same_files(const std::vector<fs::path>& files, comm::Communicator& ranks) {
  std::string names;
  for (const fs::path& file : files) names += file.filename().string() + "\n";
  const std::vector<std::string> all = ranks.gather_texts(names);
  for (std::size_t r = 1; r < all.size(); ++r)
    require(all[r] == all[0], files.front().string(), ": rank ", r, " sees other files there than rank 0 (",
            std::count(all[r].begin(), all[r].end(), '\n'), " against ",
            std::count(all[0].begin(), all[0].end(), '\n'), " names)");
}

}  // namespace

// The rows [first, last) of all files.
class SetReader::Files {
 public:
  Files(const fs::path& path, DataLayout layout, Labels labels, const Execution& execution, bool shared)
      : layout_(layout), labels_(labels), execution_(execution), ranks_(comm::world()) {
    ranks_.together([&] { files_ = data_files(path); });
    check_same_files(files_, ranks_);
    facts_ = survey(files_, layout, labels, execution, ranks_);
    for (std::size_t i = 1; i < files_.size(); ++i) check_alike(facts_[0], facts_[i], files_[0], files_[i]);
    for (const FileFacts& facts : facts_) rows_ += facts.rows;
    const Index size = shared ? ranks_.size() : 1, rank = shared ? ranks_.rank() : 0;
    require(rows_ >= size, path.string(), ": holds ", rows_, " rows, fewer than there are ranks (", size,
            ")");
    first_ = next_ = part(rank, size);
    last_ = part(rank + 1, size);
    if (files_.size() == 1) open(0);
  }

  const FileFacts& facts() const { return facts_[0]; }
  Index first() const { return first_; }
  Index last() const { return last_; }
  Index rows() const { return rows_; }

  Whole whole() const {
    Whole out{first_ * facts().sets_in_row(), rows_ * facts().sets_in_row(), facts().first_keys, 0, true};
    for (const FileFacts& f : facts_) {
      out.max_keys = std::max(out.max_keys, f.max_keys);
      out.equal_sizes = out.equal_sizes && f.equal_sizes == 1 && f.first_keys == facts().first_keys;
    }
    return out;
  }

  double row_bytes() const {
    double sum = 0;
    for (const FileFacts& f : facts_) sum += f.row_bytes * static_cast<double>(f.rows);
    return sum / static_cast<double>(rows_);
  }
  double largest_block_bytes(Index rows) const {
    if (reader_ && files_.size() == 1) return reader_->largest_block_bytes(rows);
    double widest = 0;
    for (const FileFacts& f : facts_) widest = std::max(widest, f.widest_bytes);
    return widest * static_cast<double>(std::min(rows, last_ - first_));
  }

  LabelledSets next(Index rows) {
    std::vector<LabelledSets> parts;
    while (rows > 0) {
      if (!reader_) open_next();
      const Index here = std::min({rows, end_ - next_, last_ - next_});
      parts.push_back(reader_->next(here));
      next_ += here;
      rows -= here;
      if (next_ < end_ && next_ < last_) continue;
      reader_->finish();
      reader_.reset();
    }
    return concatenate(std::move(parts));
  }

 private:
  Index part(Index rank, Index size) const { return rows_ / size * rank + std::min(rank, rows_ % size); }

  void open_next() {
    Index begin = 0;
    std::size_t i = 0;
    while (begin + facts_[i].rows <= next_) begin += facts_[i++].rows;
    open(i, begin);
  }

  // Another node may see another file of this name.
  void open(std::size_t i, Index begin = 0) {
    reader_ = std::make_unique<SetFileReader>(files_[i], layout_, labels_, execution_);
    require(reader_->facts() == facts_[i], files_[i].string(), ": rank ", ranks_.rank(),
            " sees another file of this name than rank ", i % static_cast<std::size_t>(ranks_.size()));
    reader_->start_at(next_ - begin);
    end_ = begin + facts_[i].rows;
  }

  DataLayout layout_;
  Labels labels_;
  Execution execution_;
  comm::Communicator& ranks_;
  std::vector<fs::path> files_;
  std::vector<FileFacts> facts_;
  Index rows_ = 0, first_ = 0, last_ = 0, next_ = 0, end_ = 0;  // end_: of the file that is open
  std::unique_ptr<SetFileReader> reader_;
};

SetReader::SetReader(const fs::path& path, DataLayout layout, Labels labels, const Execution& execution,
                     RankShare share)
    : files_(std::make_unique<Files>(path, layout, labels, execution, share == RankShare::mine)),
      name_(path.string()),
      whole_(files_->whole()),
      rows_(files_->last() - files_->first()),
      dim_(files_->facts().dim),
      sequence_length_(files_->facts().sequence_length),
      outputs_(files_->facts().outputs) {}

SetReader::~SetReader() = default;

double SetReader::row_bytes() const { return files_->row_bytes(); }
double SetReader::largest_block_bytes(Index rows) const { return files_->largest_block_bytes(rows); }

SetBlock SetReader::next(Index most_rows) {
  require(most_rows > 0 && remaining() > 0, name_, ": ", most_rows, " rows asked for, ", remaining(),
          " are left");
  const Index rows = std::min(most_rows, remaining()), first = next_row_ * sets_in_row();
  next_row_ += rows;
  return {first, files_->next(rows)};
}

}  // namespace headlens
