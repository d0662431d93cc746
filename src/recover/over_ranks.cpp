#include "recover/over_ranks.hpp"

#include <array>
#include <span>
#include <vector>

#include "headlens/error.hpp"
#include "io/checksum.hpp"
#include "recover/factors/recover_factors.hpp"
#include "recover/variants/recover_variant.hpp"

namespace headlens::recovery {

bool is_shared(const Examples& examples, const RecoverOptions& options) {
  return wants_factors(options, examples.dim()) && options.choice == VariantChoice::given &&
         options.rotary == "none" && !options.kv_groups && examples.lengths.size() == 0 &&
         !wants_variant(options, examples);
}

void require_same_examples(const Examples& examples, comm::Communicator& ranks) {
  const std::array<std::int64_t, 4> mine{examples.x.size(), examples.y.size(),
                                         io::checksum(examples.x.raw(), examples.x.bytes()),
                                         io::checksum(examples.y.raw(), examples.y.bytes())};
  const std::vector<std::int64_t> all = comm::gather(ranks, std::span<const std::int64_t>(mine));
  for (std::size_t i = 0; i < all.size(); ++i)
    require(all[i] == all[i % mine.size()], "rank ", i / mine.size(),
            " has read other examples than rank 0: give all ranks the same file");
}

}  // namespace headlens::recovery
