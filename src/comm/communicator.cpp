#include "comm/communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "headlens/error.hpp"

namespace headlens::comm {
namespace {

class Serial final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int neighbours() const override { return 1; }
  std::string name() const override { return "one process"; }
  void sum(std::span<double>) override {}
  void sum(std::span<float>) override {}
  void least(std::span<double>) override {}
  void gather(std::span<const std::byte> part, const Room& room) override {
    std::copy(part.begin(), part.end(), room(part.size()));
  }
  void gather_on_first(std::span<const std::byte> part, const Room& room) override { gather(part, room); }
  Parts exchange(const Parts& to) override { return to; }
  Grid& grid() override { throw Bug("comm: one process has no grid"); }
  std::uint64_t exchanged_bytes() const override { return 0; }
  bool last_words(const std::string& text, double, std::string& first) override {
    first = text;
    return true;
  }
  void abort(int status) override { std::exit(status); }
  void leave() override {}
};

Communicator* replacement = nullptr;

}  // namespace

std::vector<std::string> Communicator::gather_texts(const std::string& text) {
  const auto length = static_cast<std::uint64_t>(text.size());
  const std::vector<std::uint64_t> lengths = comm::gather(*this, std::span<const std::uint64_t>(&length, 1));
  const std::vector<char> all = comm::gather(*this, std::span<const char>(text.data(), text.size()));
  std::vector<std::string> out;
  auto next = all.begin();
  for (const std::uint64_t size : lengths) {
    out.emplace_back(next, next + static_cast<std::ptrdiff_t>(size));
    next += static_cast<std::ptrdiff_t>(size);
  }
  return out;
}

void Communicator::together(const std::function<void()>& act) {
  if (alone()) return act();
  std::optional<Error> failure;
  try {
    act();
  } catch (const Error& error) {
    failure = error;
  }
  // The code of the error in the first character, so that an error without words is still one.
  const std::string mine =
      failure ? static_cast<char>('0' + static_cast<int>(failure->code())) + std::string(failure->what())
              : "";
  for (const std::string& text : gather_texts(mine)) {
    if (text.empty()) continue;
    if (text == mine) throw Error(*failure);  // keeps the spelling of its options
    throw Error(static_cast<ErrorCode>(text[0] - '0'), text.substr(1));
  }
}

Communicator& serial() {
  static Serial instance;
  return instance;
}

Communicator& world() { return replacement ? *replacement : serial(); }

Replacement::Replacement(Communicator& ranks) : before_(replacement) { replacement = &ranks; }
Replacement::~Replacement() { replacement = before_; }

}  // namespace headlens::comm
