// A certificate as text: one JSON object, as the file of `headlens recover --certificate` holds it, and words
// for a person. Both front ends take theirs from here.
#pragma once

#include <string>

#include "headlens/recover.hpp"

namespace headlens {

// Indented by two. What is not finite is null. The advice spells options as the command line does.
std::string to_json(const Certificate& certificate);

// Several lines without a last line break.
std::string in_words(const Certificate& certificate, const Spelling& spelling);

}  // namespace headlens
