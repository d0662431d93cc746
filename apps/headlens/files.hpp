// The files of one command, checked before it works: that no output is an input or another output, and that
// every output can be written. An error after hours of work, or over the data, would come too late.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headlens::app {

// What "-" as the name of an output means.
enum class Stream {
  refused,  // this output cannot be standard output
  binary,   // standard output, unless that is a terminal
  text,
};

class Files {
 public:
  explicit Files(std::vector<std::string> inputs) : inputs_(std::move(inputs)) {}

  // The path to write for what `option` was given; empty for an option that was not. With "-" the report of
  // the command goes to standard error.
  std::filesystem::path output(const std::string& option, const std::string& name, Stream stream);

 private:
  void check(const std::string& option, const std::filesystem::path& path, Stream stream) const;

  struct Output {
    std::string option;
    std::filesystem::path path;
  };
  std::vector<std::string> inputs_;
  std::vector<Output> outputs_;
};

// As np.save does: x becomes x.npy. Devices, pipes and "-" keep their names.
std::string npy_name(const std::string& output);

// Error if MODEL and DATA were given in the wrong order.
void check_model_and_data(const std::string& command, const std::string& model, const std::string& data);
bool is_layer_file(const std::string& path);  // .npz with W, or with V and O

}  // namespace headlens::app
