#include "recover/certificate/words_of_doubt.hpp"

#include "headlens/options.hpp"

namespace headlens::recovery {

Words words_of_doubt(Doubt doubt) {
  switch (doubt) {
    case Doubt::mirror:
      return {"The examples have two tokens or fewer: a head and its mirror image fit them equally well.",
              "Give examples of three tokens or more."};
    case Doubt::few_tokens:
      return {
          "The tokens fall into groups whose spans are independent: parts of heads could be exchanged on one "
          "group alone.",
          "Give tokens in general position."};
    case Doubt::mean_unseen:
      return {
          "In all examples the mean of the tokens lacks a direction: a head that takes the plain mean would "
          "not show.",
          "Give examples whose mean varies in every direction."};
    case Doubt::few_distinct:
      return {"The held-out examples repeat the others, so predicting them proves little.",
              "Give more different examples."};
    case Doubt::structure:
      return {
          "What is left of the labels is more than the rounding of float64: something is not explained yet.",
          message("Give more examples, or check ", option("mask"), ", ", option("bias"), " and ",
                  option("rotary"), ".")};
    case Doubt::another_layer:
      return {"Nudged by a thousandth, the heads did not come back: other heads explain the labels as well.",
              "Give more examples."};
    default:
      return {"The labels are explained, but an error of more than 1% of a head would hardly change a label.",
              "Give more examples, or tokens that vary in every direction."};
  }
}

}  // namespace headlens::recovery
