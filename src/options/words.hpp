// The words of every enumeration, in its order. name() and the tables of options read them here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headlens/fit.hpp"
#include "headlens/hardness.hpp"
#include "headlens/inspect.hpp"
#include "headlens/layer.hpp"
#include "headlens/recover.hpp"
#include "headlens/tasks.hpp"
#include "headlens/variant.hpp"

namespace headlens::options {

template <class Enum>
inline constexpr std::string_view kWords = "";
template <>
inline constexpr std::string_view kWords<ModelKind> = "rfa|brfa|mlp";
template <>
inline constexpr std::string_view kWords<Score> = "relu|softmax|exp|step";
template <>
inline constexpr std::string_view kWords<Positions> = "none|sinusoidal";
template <>
inline constexpr std::string_view kWords<Precision> = "f32|f64";
template <>
inline constexpr std::string_view kWords<Loss> = "squared|huber|logistic|hinge";
template <>
inline constexpr std::string_view kWords<BackendChoice> = "auto|cpu|cuda";
template <>
inline constexpr std::string_view kWords<Solver> = "auto|primal|dual|iterative";
template <>
inline constexpr std::string_view kWords<Task> = "power-mean|correlation|native|query-power|mixture|ordered";
template <>
inline constexpr std::string_view kWords<TaskMatrix> = "identity|shift|random";
template <>
inline constexpr std::string_view kWords<Inputs> = "signs|gaussian";
template <>
inline constexpr std::string_view kWords<Mask> = "none|causal";
template <>
inline constexpr std::string_view kWords<RotaryLayout> = "half|interleaved";
template <>
inline constexpr std::string_view kWords<HardKind> = "hard-parity|hard-rounding";
template <>
inline constexpr std::string_view kWords<WeightsFormat> = "auto|factors|torch|hf";
template <>
inline constexpr std::string_view kWords<RecoverMethod> =
    "varpro|sculpt|moments|gradient|brute-force|linear-algebra";
template <>
inline constexpr std::string_view kWords<RecoverStart> = "random|spectral";
template <>
inline constexpr std::string_view kWords<VariantChoice> = "given|auto";
template <>
inline constexpr std::string_view kWords<SculptForm> = "least-squares|lp";
template <>
inline constexpr std::string_view kWords<SpanForm> = "eigenvectors|membership";

std::vector<std::string> split(std::string_view words);  // at every '|'
std::string word(std::string_view words, int place);

template <class Enum>
std::string word_of(Enum value) {
  return word(kWords<Enum>, static_cast<int>(value));
}

}  // namespace headlens::options
