// What a certificate says of heads that predict every label and are not determined, where nothing more is
// known of them than the doubt.
#pragma once

#include <string>

#include "headlens/text.hpp"
#include "recover/certificate/proof.hpp"

namespace headlens::recovery {

struct Words {
  std::string reason;
  Text advice;
};

Words words_of_doubt(Doubt doubt);

}  // namespace headlens::recovery
