// The paper's conditions and the tails of the logits, as `inspect` prints them.
#pragma once

#include "command.hpp"
#include "headlens/conditions.hpp"

namespace headlens::app {

using Tails = std::vector<std::optional<LogitTails>>;

Json conditions_json(const Conditions& conditions);
std::string conditions_text(const Conditions& conditions, const Inspection& inspection);
Json tails_json(const Tails& tails);
std::string tails_text(const Tails& tails, Index samples);

}  // namespace headlens::app
