// The back end that is always there.
#include "backend/backend.hpp"

namespace headlens::cpu {
namespace {

class Processor final : public backend::Backend {
 public:
  std::string_view name() const override { return "cpu"; }
};

}  // namespace

backend::Backend& processor() {
  static Processor instance;
  return instance;
}

}  // namespace headlens::cpu
