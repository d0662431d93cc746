// The back end that is always there.
#include "backend/backend.hpp"
#include "cpu/layer/variable_projection.hpp"

namespace headlens::cpu {
namespace {

class Processor final : public backend::Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  std::unique_ptr<backend::LayerProblem> make_layer_problem(const backend::LayerExamples& examples,
                                                            Index heads,
                                                            const backend::Context& context) override {
    return std::make_unique<VariableProjection>(examples.x, examples.y, examples.tokens, heads,
                                                context.threads, examples.row_weights);
  }
};

}  // namespace

backend::Backend& processor() {
  static Processor instance;
  return instance;
}

}  // namespace headlens::cpu
