// Weights -> conventions, by their error -> the one that fits, or the heads that do not; start reading here.
#include "headlens/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "attention/variant_file.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "match/convention.hpp"
#include "match/suspects.hpp"

namespace headlens {
namespace {

using matching::Change;
using matching::Convention;
using matching::View;

constexpr Index kSearchRows = 128;       // a wrong convention misses by percents: a hundred rows tell
constexpr double kLargestError = 1e100;  // shapes that a change does not allow, and overflow, have more
constexpr Index kBlameRows = 384;  // a refit of the outputs of a head has some tens of unknowns per output

struct CheckProblem {
  std::optional<AttentionWeights> weights;
  WeightsOptions options;
  LayerHeads as_stored;
  const CheckExamples& data;
  int threads = 1;

  std::vector<View> views(Index count, const Convention& c, const LayerHeads& layer) const {
    const Array& x = data.examples.x;
    std::vector<View> out;
    for (Index i = 0; i < count; ++i)
      out.push_back({{x.data<double>() + i * x.dim(1) * x.dim(2), x.dim(1), x.dim(2)},
                     c.ignores_lengths ? x.dim(1) : length(i),
                     layer.mask == Mask::causal});
    return out;
  }
  Index examples_of(Index rows) const {
    return std::min(data.examples.count(), std::max<Index>(1, rows / data.examples.tokens()));
  }
  Index length(Index example) const {
    return data.lengths.empty() ? data.examples.tokens() : data.lengths[static_cast<std::size_t>(example)];
  }
};

struct Missed {
  std::vector<Matrix<double>> rows;  // Y - F of the rows that have a label
  double squares = 0, label_squares = 0;

  double error() const {
    const double error = std::sqrt(label_squares == 0 ? squares : squares / label_squares);
    return std::isfinite(error) ? error : std::numeric_limits<double>::max();
  }
};

Missed residual_of(const CheckProblem& p, const LayerHeads& layer, const std::vector<View>& views) {
  const Array& y = p.data.examples.y;
  const auto count = static_cast<Index>(views.size());
  Missed out;
  out.rows.resize(views.size());
  parallel_for(p.threads, count, [&](Index i, int) {
    const Index n = p.length(i), k = y.dim(1), e = y.dim(2);
    const Matrix<double> f = matching::outputs_of(layer, views[static_cast<std::size_t>(i)]);
    Matrix<double> left(n, e);
    for (Index a = 0; a < n; ++a)
      for (Index c = 0; c < e; ++c) left(a, c) = y.data<double>()[(i * k + a) * e + c] - f(a, c);
    out.rows[static_cast<std::size_t>(i)] = std::move(left);
  });
  for (Index i = 0; i < count; ++i) {
    const Matrix<double>& left = out.rows[static_cast<std::size_t>(i)];
    for (Index a = 0; a < left.rows(); ++a)
      for (Index c = 0; c < left.cols(); ++c) {
        const double label = y.data<double>()[(i * y.dim(1) + a) * y.dim(2) + c];
        out.squares += left(a, c) * left(a, c), out.label_squares += label * label;
      }
  }
  return out;
}

Missed missed_under(const CheckProblem& p, const Convention& c, Index examples) {
  const std::optional<LayerHeads> layer = heads_under(c, p.as_stored, p.weights, p.options);
  if (!layer) return {.squares = 1e300, .label_squares = 1};
  return residual_of(p, *layer, p.views(examples, c, *layer));
}

// All conventions that were tried, by name.
struct Search {
  const CheckProblem& problem;
  Index examples = 0;
  std::map<std::string, double> errors;
  std::map<std::string, Convention> conventions;
  Convention best;
  double least = std::numeric_limits<double>::infinity();

  void attempt(const Convention& c) {
    const std::string name = matching::name(c);
    if (errors.count(name) > 0) return;
    const double error = missed_under(problem, c, examples).error();
    if (error >= kLargestError) return;
    errors[name] = error, conventions[name] = c;
    // A change has to earn its place: rounding decides between equals otherwise.
    if (error < 0.999 * least) least = error, best = c;
  }
};

void search_conventions(Search& search, const Execution& execution) {
  const CheckProblem& p = search.problem;
  const auto kinds = matching::changes_of(p.as_stored, p.weights, p.options, !p.data.lengths.empty());
  const auto changed = [](Convention c, const Change& change) {
    change.apply(c, change.rotary);
    return c;
  };
  search.attempt({});
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    execution.report("conventions", static_cast<double>(i), static_cast<double>(kinds.size()));
    for (const Change& first : kinds[i]) {
      search.attempt(changed({}, first));
      for (std::size_t j = 0; j < i; ++j)
        for (const Change& second : kinds[j]) {
          execution.check_cancelled();
          search.attempt(changed(changed({}, first), second));
        }
    }
  }
  // Three changes and more, as long as each helps.
  for (double before = search.least * 2; search.least < 0.999 * before;) {
    before = search.least;
    const Convention from = search.best;
    for (const auto& kind : kinds)
      for (const Change& change : kind) search.attempt(changed(from, change));
  }
}

struct Blamed {
  double constant_share = 0;
  std::vector<Damage> damage;

  // What is left once these heads are refitted; nothing is gained without suspects.
  bool repaired(double tolerance) const { return !damage.empty() && damage.back().error <= tolerance; }
};

Blamed blame_heads(const CheckProblem& p, const Convention& c, Index examples, double tolerance) {
  const LayerHeads layer = *heads_under(c, p.as_stored, p.weights, p.options);
  std::vector<View> views = p.views(examples, c, layer);
  Missed missed = residual_of(p, layer, views);
  for (Index i = 0; i < examples; ++i) views[static_cast<std::size_t>(i)].length = p.length(i);
  const matching::Residual residual{
      layer, views, std::move(missed.rows), std::sqrt(missed.label_squares), tolerance, p.threads};
  Blamed out{.constant_share = matching::share_of_constant(residual)};
  if (out.constant_share <= 0.99) out.damage = matching::find_suspects(residual);
  return out;
}

// That of the file first, then the best one, and the next best ones with few changes.
std::vector<std::string> suspicious_conventions(const std::vector<TriedConvention>& tried) {
  constexpr std::size_t most = 8;
  std::vector<std::string> out{"as stored"};
  if (tried.front().convention != out.front()) out.push_back(tried.front().convention);
  const auto is_pair = [](const std::string& name) { return name.find(", ") != std::string::npos; };
  for (const bool pairs : {false, true})
    for (std::size_t i = 0, taken = 0; i < tried.size() && taken < most; ++i) {
      const std::string& name = tried[i].convention;
      if (is_pair(name) != pairs) continue;
      ++taken;
      if (std::ranges::find(out, name) == out.end()) out.push_back(name);
    }
  return out;
}

// A wrong head may make a wrong convention look best: the one that needs the fewest heads refitted is right.
void find_damage(const CheckProblem& p, Search& search, const Execution& execution, Check& out) {
  const std::vector<std::string> candidates = suspicious_conventions(out.tried);
  std::optional<Blamed> best;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    execution.report("heads", static_cast<double>(i), static_cast<double>(candidates.size()));
    const Convention& c = search.conventions.at(candidates[i]);
    Blamed blamed = blame_heads(p, c, p.examples_of(kBlameRows), out.tolerance);
    const bool repaired = blamed.repaired(out.tolerance), before = best && best->repaired(out.tolerance);
    // Where no refit helps, the convention of least error stands.
    const bool better = repaired ? !before || blamed.damage.size() < best->damage.size()
                                 : !before && candidates[i] == out.tried.front().convention;
    if (best && !better) continue;
    best = std::move(blamed);
    search.best = c;
    if (repaired && best->damage.size() == 1) break;
  }
  out.constant_share = best->constant_share;
  out.damage = best->damage;
  for (const Damage& damage : out.damage) out.suspects.push_back(damage.head);
}

// What stands in padding is no number at times. Finite padding stays: outputs may have seen it.
Array with_finite_padding(const Array& array, const std::vector<Index>& lengths) {
  Array out = Array::from(array.to_doubles(), array.shape());
  const Index size = array.dim(1) * array.dim(2);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    double* const example = out.data<double>() + static_cast<Index>(i) * size;
    std::replace_if(
        example + lengths[i] * array.dim(2), example + size, [](double v) { return !std::isfinite(v); }, 0.0);
  }
  return out;
}

void require_error(bool finite, const std::string& name) {
  require(finite, "check: the outputs of ", name,
          " and the labels Y are too far apart, or too large, for an error |F - Y| / |Y| in float64; divide "
          "labels and weights of the outputs by one number");
}

}  // namespace

void CheckOptions::validate() const { check_ranges(*this); }

CheckExamples make_check_examples(const Array& x, const Array& y, const std::optional<Array>& lengths,
                                  const std::string& name) {
  const bool alike = x.rank() == 3 && y.rank() == 3 && x.dim(0) == y.dim(0) && x.dim(1) == y.dim(1);
  if (!lengths || !alike) return {make_examples(x, y, name), {}};
  const std::vector<Index> own = read_lengths(*lengths, x, name);
  return {make_examples(with_finite_padding(x, own), with_finite_padding(y, own), name), own};
}

CheckExamples load_check_examples(const std::filesystem::path& path, const Execution& execution) {
  NamedArrays arrays = read_npz(path, MemoryBudget(execution).limit_bytes());
  for (const char* key : {"X", "Y"})
    require(arrays.count(key) > 0, path.string(), ": array '", key,
            "' is missing; examples hold X (n, k, d) and Y (n, k, e)");
  const auto lengths = arrays.find("lengths");
  return make_check_examples(arrays.at("X"), arrays.at("Y"),
                             lengths == arrays.end() ? std::nullopt : std::optional(lengths->second),
                             path.string());
}

Check check_tensors(NamedArrays tensors, const HeadsSource& source, const CheckExamples& data,
                    const CheckOptions& options, const std::string& name, const Execution& execution) {
  options.validate();
  const Heed heed(execution);
  CheckProblem p{std::nullopt, source.weights, find_heads(tensors, source, name, execution).front(), data,
                 thread_count(execution)};
  if (tensors.count("Theta") + tensors.count("Q") == 0) {
    p.weights = find_weights(std::move(tensors), source.weights, name);
    if (p.weights->q.rank() != 2) p.weights.reset();  // stacked layers: their storage is not searched
  }
  const Examples& ex = data.examples;
  require(ex.dim() == p.as_stored.dim() && ex.outputs() == p.as_stored.outputs(), "check: ", name,
          " has (d, e) = (", p.as_stored.dim(), ", ", p.as_stored.outputs(), ") and the examples have (",
          ex.dim(), ", ", ex.outputs(), ")");
  Search search{.problem = p, .examples = p.examples_of(kSearchRows), .best = {}};
  search_conventions(search, execution);
  require_error(search.errors.count(matching::name(Convention{})) > 0, name);
  Check out{.tolerance = options.tolerance};
  for (const auto& [convention, error] : search.errors) out.tried.push_back({convention, error});
  std::ranges::stable_sort(out.tried, {}, &TriedConvention::error);
  out.error = missed_under(p, search.best, ex.count()).error();
  require_error(out.error < kLargestError, name);
  out.fits = out.error <= options.tolerance;
  if (!out.fits) {
    find_damage(p, search, execution, out);
    out.error = missed_under(p, search.best, ex.count()).error();
  }
  out.convention = matching::name(search.best);
  return out;
}

}  // namespace headlens
