// A back end in a library of its own, which is loaded when it is first asked for: a program that links no
// driver starts everywhere. Two functions with C names are all that the library shows:
//
//   const char* headlens_plugin_build()          the build that the library belongs to
//   void* headlens_plugin_open(char*, size_t)    its backend::Backend, or null and a line that says why
//
// What the second one returns is a C++ object, so builds must be equal: version, commit and compiler.
#pragma once

#include <string>

#include "backend/backend.hpp"

namespace headlens::backend {

inline constexpr char kPluginBuild[] = "headlens_plugin_build", kPluginOpen[] = "headlens_plugin_open";
using PluginBuild = const char* (*)();
using PluginOpen = void* (*)(char* words, std::size_t size);

std::string build_name();  // "0.1.0 5d1c9ab GCC 12.2.0, Release"

struct Plugin {
  Backend* machine = nullptr;
  std::string words;  // what the machine is, or why there is none and what to do
};

// file: "libheadlens_cuda.so", looked for beside the program or library that this code is in.
Plugin load_plugin(const std::string& file);

}  // namespace headlens::backend
