// The arrays of an .npz archive, whole or a few rows at a time: each is read once, front to back, and any of
// them in turns. Nothing is held but what was asked for; deflated arrays cost 50 KB each while they are read.
//
// Names, methods, sizes and the headers of all arrays are checked at once. An array's checksum is compared
// when its last byte is read, all others by finish(). Every failure is an Error that begins with the label of
// the archive. Of an array whose rows were skipped no checksum is compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "headlens/array.hpp"
#include "io/npy.hpp"

namespace headlens::io {

class NpzReader {
 public:
  explicit NpzReader(const std::filesystem::path& path);
  NpzReader(std::span<const std::byte> bytes, const std::string& label);
  ~NpzReader();

  const std::string& label() const;
  const std::map<std::string, NpyHeader>& headers() const;
  std::uint64_t data_bytes() const;  // of all arrays

  Array read(const std::string& name);
  Array read_rows(const std::string& name, Index rows);  // the next ones, along the first axis
  void skip_rows(const std::string& name, Index rows);   // not read if the array is stored, not deflated
  void finish();                                         // reads what was not read, for its checksum

 private:
  class Archive;
  std::unique_ptr<Archive> archive_;
};

}  // namespace headlens::io
