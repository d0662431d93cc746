// Do these weights produce these outputs? If not as they stand, under which convention; and if under none,
// which head is wrong.
//
// Conventions are what ports get wrong: the mask, rotary positions and their layout and base, the scale of
// the logits, biases, matrices stored (in, out), heads cut the other way, queries and keys exchanged, and
// which heads share keys and values. The convention of the file, every single change and every pair of
// changes are tried on a few hundred rows; from the best one single changes go on as long as they help.
//
// If none fits, each head is refitted to what is left, R = Y - F, in closed form:
//   queries or keys   a row of R lies in the span of (x_b - mean) W_h over the tokens of its example
//   values            a row of R lies in the row space of O_h
//   outputs           a column of R is a combination of the columns of P_h X V_h
// A head is a suspect if one of these explains more of R than chance does, and heads are added one at a time.
// A wrong head may make a wrong convention look best, so this is done under the eight best conventions; the
// one that fits with the fewest heads refitted is named.
#pragma once

#include <string>
#include <vector>

#include "headlens/match.hpp"

namespace headlens {

struct CheckOptions {
  double tolerance =
      1e-4;  // relative error up to which weights fit; float32 leaves about 1e-6, bfloat16 1e-2

  void validate() const;
};

// Examples with padding: only the first lengths[i] tokens of example i count. Empty: all.
struct CheckExamples {
  Examples examples;
  std::vector<Index> lengths;
};
CheckExamples load_check_examples(const std::filesystem::path& path, const Execution& execution);
CheckExamples make_check_examples(const Array& x, const Array& y, const std::optional<Array>& lengths,
                                  const std::string& name = "examples");

struct TriedConvention {
  std::string convention;
  double error = 0;  // |F - Y| / |Y| on the rows of the search
};

struct Damage {
  Index head = 0;
  std::string part;  // "queries or keys", "values" or "outputs"
  double share = 0;  // of |R|^2 that this head explains with those before it
  double error = 0;  // |F - Y| / |Y| once these heads are refitted, on the rows of the search
};

struct Check {
  bool fits = false;
  std::string convention;  // of least error: "as stored", or what has to be changed
  double error = 0;        // |F - Y| / |Y| on all examples
  double tolerance = 0;
  std::vector<TriedConvention> tried;  // best first
  double constant_share = 0;  // of |R|^2 that one constant vector explains: a wrong bias of the outputs
  std::vector<Index> suspects;
  std::vector<Damage> damage;
};

// Weights of a checkpoint, or a layer; `source` says which weights of the file.
Check check_tensors(NamedArrays tensors, const HeadsSource& source, const CheckExamples& examples,
                    const CheckOptions& options, const std::string& name, const Execution& execution);

std::string to_json(const Check& check);
std::string in_words(const Check& check);

}  // namespace headlens
