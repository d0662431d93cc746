#include "backend/plugin.hpp"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <vector>

#include "headlens/error.hpp"

namespace headlens::backend {
namespace {

namespace fs = std::filesystem;

// The folder of the program or library that holds this function.
fs::path own_folder() {
  Dl_info info{};
  std::error_code error;
  const bool known = dladdr(reinterpret_cast<void*>(&own_folder), &info) != 0 && info.dli_fname;
  fs::path file = known && fs::path(info.dli_fname).is_absolute() ? info.dli_fname : "/proc/self/exe";
  const fs::path real = fs::canonical(file, error);
  return (error ? file : real).parent_path();
}

// Beside the program; folders above (tests and the package of a build); where an installation puts libraries;
// the back end's own package, beside the package headlens or under the environment of the program.
std::vector<fs::path> folders_to_search() {
  const fs::path own = own_folder();
  std::vector<fs::path> out;
  for (const char* folder :
       {".", "..", "../..", "../lib", "../lib64", "../lib/x86_64-linux-gnu", "../headlens_cuda"})
    out.push_back(own / folder);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(own / "../lib", error))
    if (entry.path().filename().string().starts_with("python3"))
      out.push_back(entry.path() / "site-packages" / "headlens_cuda");
  return out;
}

fs::path find_plugin(const std::string& file) {
  for (const fs::path& folder : folders_to_search()) {
    std::error_code error;
    const fs::path path = fs::canonical(folder / file, error);
    if (!error) return path;
  }
  return {};
}

}  // namespace

std::string build_name() { return join(version(), " ", commit(), " ", compiler()); }

Plugin load_plugin(const std::string& file) {
  const fs::path path = find_plugin(file);
  if (path.empty())
    return {nullptr, join(file,
                          " is not beside this program: install the package headlens-cuda, or nvcc "
                          "(scripts/setup cuda) and build again, or ask for cpu")};
  // The libraries of CUDA are large: without a driver, which no program brings along, they are not loaded.
  if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
    return {nullptr, "no driver of NVIDIA is installed: install one, or ask for cpu"};
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    return {nullptr, join(file, " does not load (", reason ? reason : "no reason given",
                          "): install the CUDA libraries that it names, or ask for cpu")};
  }
  const auto build = reinterpret_cast<PluginBuild>(dlsym(library, kPluginBuild));
  const auto open = reinterpret_cast<PluginOpen>(dlsym(library, kPluginOpen));
  if (!build || !open || build() != build_name())
    return {nullptr,
            join(path.string(), " belongs to another build of headlens (", build ? build() : "unknown",
                 ", this is ", build_name(), "): build both together, or ask for cpu")};
  std::array<char, 512> words{};
  void* machine = open(words.data(), words.size());
  return {static_cast<Backend*>(machine), words.data()};
}

}  // namespace headlens::backend
