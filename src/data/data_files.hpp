// The files that a name of data means.
#pragma once

#include <filesystem>
#include <vector>

namespace headlens {

// The file itself; of a folder its *.npz; of a pattern with *, ? or [..] what matches: in the order of the
// names. Error if there is none.
std::vector<std::filesystem::path> data_files(const std::filesystem::path& path);

}  // namespace headlens
