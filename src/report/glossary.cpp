#include "report/glossary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/escape.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

struct Entry {
  const char *key, *name, *meaning;
};

// Names of options, in the order in which they are explained.
constexpr Entry kModels[] = {
    {"rfa", "RFA",
     "Random-feature attention. <span class=\"formula\">f = b + Σ<sub>m</sub> (1/N) Σ<sub>i</sub> "
     "relu(x<sub>0</sub><sup>T</sup> W<sub>m</sub> x<sub>i</sub>) ⟨v<sub>m</sub>, x<sub>i</sub>⟩</span> Here "
     "x<sub>0</sub> is the query of a set and x<sub>1</sub>, …, x<sub>N</sub> are its keys, each with a 1 "
     "appended. The "
     "query-key matrices W<sub>m</sub> of the heads are drawn at random around zero and stay as they are; "
     "the values "
     "v<sub>m</sub> and the constant b are trained."},
    {"brfa", "BRFA",
     "Biased random-feature attention: RFA whose random query-key matrices are drawn around the identity "
     "instead of "
     "zero. A key that resembles the query has a larger score from the start."},
    {"mlp", "RFMLP",
     "A random-feature network without attention. <span class=\"formula\">f = b + Σ<sub>m</sub> "
     "relu(⟨w<sub>m</sub>, "
     "[x<sub>0</sub>, x<sub>1</sub>, …, x<sub>N</sub>]⟩) v<sub>m</sub></span> It reads a set as one long "
     "vector. The "
     "weights w<sub>m</sub> are random and stay as they are; the v<sub>m</sub> and b are trained."}};

constexpr Entry kMethods[] = {
    {"varpro", "varpro",
     "Variable projection: for given query-key matrices the values of all heads "
     "follow by least squares, so the search is "
     "over the query-key matrices alone."},
    {"sculpt", "sculpt",
     "Recovery by the method of the paper that proved it possible: crude sums of "
     "heads first, then a convex body that "
     "holds the heads, then the heads."},
    {"moments", "moments",
     "Heads from averages over the examples alone, without a polish: a second moment "
     "for their span, a third one to tell them apart."},
    {"gradient", "gradient", "Gradient descent on all parameters of the layer, without a polish."},
    {"brute-force", "brute-force",
     "A learner that knows the class of hard layers and tries every hidden set."},
    {"linear-algebra", "linear-algebra",
     "A learner that knows the class of hard layers and solves linear equations "
     "modulo 2 for the hidden set."}};

constexpr Entry kTasks[] = {
    {"power-mean", "Target: power mean",
     "<span class=\"formula\">y = (1/N) Σ<sub>i</sub> ⟨β, x<sub>i</sub>⟩<sup>p</sup></span> The mean over "
     "the N keys of "
     "the p-th power of the key's component along a hidden unit vector β. p is the degree."},
    {"correlation", "Target: correlation",
     "<span class=\"formula\">y = (1/N) Σ<sub>i</sub> ⟨x<sub>0</sub>, S x<sub>i</sub>⟩<sup>p</sup> ⟨β, "
     "x<sub>i</sub>⟩</span> Keys count by their likeness to the query x<sub>0</sub>. p is the degree; S is "
     "the identity, "
     "or with “shift” the rotation of the coordinates by one; β is a hidden unit vector."},
    {"native", "Target: native",
     "<span class=\"formula\">y = (1/N) Σ<sub>i</sub> c(⟨x<sub>0</sub>, S x<sub>i</sub>⟩) ⟨β, "
     "x<sub>i</sub>⟩, c(s) = "
     "E[relu(s + g)]</span> g is a standard normal number. With the identity for S this is what infinitely "
     "many BRFA heads "
     "compute; with “shift”, S rotates the coordinates by one. β is a hidden unit vector."},
    {"query-power", "Target: query power",
     "<span class=\"formula\">y = ⟨β, x<sub>0</sub>⟩<sup>p</sup></span> A power of the query alone; the keys "
     "do not matter. "
     "p is the degree, β a hidden unit vector."},
    {"mixture", "Target: mixture",
     "<span class=\"formula\">y = (1 − g) y<sub>identity</sub> + g y<sub>shift</sub>, y<sub>S</sub> = (1/N) "
     "Σ<sub>i</sub> "
     "⟨x<sub>0</sub>, S x<sub>i</sub>⟩<sup>p</sup> ⟨β, x<sub>i</sub>⟩</span> g is the weight, p the degree, "
     "β a hidden "
     "unit vector; the shift rotates the coordinates by one."},
    {"ordered", "Target: ordered",
     "<span class=\"formula\">y = (1/N) Σ<sub>i</sub> a<sub>i</sub> ⟨β, x<sub>i</sub>⟩<sup>p</sup>, "
     "a<sub>i</sub> = "
     "(N + 1 − 2i) / (N − 1)</span> The first key counts fully, the last one with the opposite sign: the "
     "order of the "
     "keys matters. p is the degree, β a hidden unit vector."}};

constexpr const char* kPure =
    " Pure: the part that depends on the query alone, or on single keys alone, is subtracted.";

constexpr Entry kLayers[] = {{"generic", "Layer",
                              "<span class=\"formula\">F(X) = Σ<sub>i</sub> softmax(X Θ<sub>i</sub> "
                              "X<sup>T</sup>) X W<sub>i</sub></span> Attention "
                              "with hidden matrices Θ<sub>i</sub> and W<sub>i</sub> for each head, drawn at "
                              "random. Recovery sees examples (X, "
                              "F(X)) and looks for the matrices."},
                             {"hard-parity", "Hard parity",
                              "A layer that hides a set of coordinates: its label is the parity of two sign "
                              "tokens on that set, and no statistic of "
                              "few coordinates shows the set."},
                             {"hard-rounding", "Hard rounding",
                              "A layer that hides a set of coordinates: its label is a rounded sum over that "
                              "set, modulo a small number."}};

constexpr Entry kQuantities[] = {
    {"nmse", "Error (nmse)",
     "<span class=\"formula\">nmse = mean of (f − y)<sup>2</sup> on fresh sets ÷ variance of y</span> "
     "Normalised mean "
     "squared error: 0 is perfect, and 1 is no better than always predicting the mean."},
    {"mse", "Squared error (mse)", "The mean of (f − y)<sup>2</sup> on fresh sets."},
    {"success", "Recovered",
     "The certificate of the recovery says so, and it is true: every Θ<sub>i</sub> and W<sub>i</sub> is "
     "right to 8 digits, "
     "or for a hard layer the labels of fresh examples are."},
    {"labels-learned", "Labels learned",
     "The held-out error is below 0.001, whether or not the heads are certified."},
    {"set-found", "Hidden set found", "The certificate names the hidden set of a hard layer."},
    {"held-out-error", "Held-out error",
     "The relative error of the outputs on examples that the recovery did not use."},
    {"worst-error", "Largest error of a head",
     "The largest relative error of a Θ<sub>i</sub> or W<sub>i</sub>."},
    {"sq-dimension", "SQ dimension",
     "The number of hidden sets that a statistical query cannot tell apart: C(d−1, m/2) for m heads in d "
     "dimensions."},
    {"hidden-sets", "Hidden sets to choose from",
     "The number of sets of w coordinates that a hard layer could hide, C(d−1, w): what a learner that tries "
     "them "
     "all has to try."}};

using Names = std::map<std::string, std::set<std::string>>;  // of an option's value: what studies call it

struct Uses {
  Names models, methods;
  std::map<std::string, std::map<std::string, std::set<std::string>>> tasks;  // task: option: its values
  std::set<std::string> layers, quantities, axes;
  bool intervals = false, theory = false;
};

std::string word(const StudyValues& inputs, const char* option) {
  const StudyValue* value = find(inputs, option);
  return value == nullptr ? "" : text(*value);
}

// What the study calls the cells of this one's model: "attention" for {model = "rfa"}.
std::string name_of(const StudyCell& cell, const Study& study, const char* option) {
  for (const StudyAxis& axis : study.axes)
    for (const StudyValues& bundle : axis.bundles)
      if (find(bundle, option) != nullptr) return word(cell.axes, axis.name.c_str());
  return "";
}

void add_cell(Uses& uses, const StudyCell& cell, const Study& study) {
  if (const std::string model = word(cell.inputs, "model"); !model.empty())
    uses.models[model].insert(name_of(cell, study, "model"));
  if (const std::string method = word(cell.inputs, "method"); !method.empty())
    uses.methods[method].insert(name_of(cell, study, "method"));
  if (const std::string task = word(cell.inputs, "task"); !task.empty())
    for (const char* option : {"degree", "keys", "dim", "pure"})
      if (const std::string value = word(cell.inputs, option); !value.empty())
        uses.tasks[task][option].insert(value);
  if (study.command == StudyCommand::recover && !cell.inputs.empty()) {
    const std::string layer = word(cell.inputs, "layer");  // left out where it is generic
    uses.layers.insert(layer.empty() ? "generic" : layer);
  }
}

Uses uses_of(const std::vector<PageStudy>& studies) {
  Uses uses;
  for (const PageStudy& page : studies) {
    for (const StudyCell& cell : page.results->cells) add_cell(uses, cell, page.results->study);
    for (const PageFigure& figure : page.figures) {
      const FigureSpec& spec = figure.data.spec;
      uses.quantities.insert({figure.data.quantity, spec.beside, spec.success});
      uses.axes.insert({spec.x, spec.y});
      uses.theory = uses.theory || spec.theory;
      uses.intervals =
          uses.intervals || spec.kind == FigureKind::sample_table || spec.kind == FigureKind::growth;
    }
    for (const PageFinding& finding : page.findings) {
      uses.quantities.insert(finding.spec.quantity);
      uses.axes.insert(finding.spec.x);
      uses.intervals = true;
    }
  }
  return uses;
}

// "RFA", with what else the studies call it: "RFA (attention)".
std::string called(const std::string& usual, const std::set<std::string>& names) {
  std::string others;
  for (const std::string& name : names)
    if (!name.empty() && name != usual) others += (others.empty() ? "" : ", ") + name;
  return others.empty() ? usual : usual + " (" + others + ")";
}

std::string listed(const std::set<std::string>& values) {
  std::vector<std::string> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  std::string words;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    words += (i == 0 ? "" : i + 1 == sorted.size() ? " and " : ", ") + sorted[i];
  return words;
}

// " On this page p = 1 and 2, with N = 16 keys in d = 16 dimensions."
std::string here(const std::map<std::string, std::set<std::string>>& options) {
  const auto values = [&](const char* option) {
    const auto found = options.find(option);
    return found == options.end() ? std::string() : html(listed(found->second));
  };
  const std::string degree = values("degree");
  return fmt::format(" On this page {}N = {} keys in d = {} dimensions.",
                     degree.empty() ? "" : "p = " + degree + ", with ", values("keys"), values("dim"));
}

void add(std::vector<Term>& terms, const std::string& name, const std::string& meaning) {
  terms.push_back({"term-" + slug(name), name, meaning});
}

void add_fit_terms(std::vector<Term>& terms, const Uses& uses) {
  for (const Entry& model : kModels)
    if (const auto found = uses.models.find(model.key); found != uses.models.end())
      add(terms, called(model.name, found->second), model.meaning);
  for (const Entry& task : kTasks)
    if (const auto found = uses.tasks.find(task.key); found != uses.tasks.end()) {
      const auto pure = found->second.find("pure");
      const bool is_pure = pure != found->second.end() && pure->second.contains("true");
      add(terms, task.name, task.meaning + std::string(is_pure ? kPure : "") + here(found->second));
    }
}

void add_recover_terms(std::vector<Term>& terms, const Uses& uses) {
  for (const Entry& layer : kLayers)
    if (uses.layers.contains(layer.key)) add(terms, layer.name, layer.meaning);
  for (const Entry& method : kMethods)
    if (const auto found = uses.methods.find(method.key); found != uses.methods.end())
      add(terms, called(method.name, found->second), method.meaning);
  if (uses.axes.contains("examples-per-unknown"))
    add(terms, "Examples per unknown",
        "The numbers that the labels of all examples hold, divided by the numbers that the layer has: n k e "
        "÷ (m d (d + "
        "e)) for n examples of k tokens with e outputs, and m heads in d dimensions.");
}

}  // namespace

std::vector<Term> terms_of(const std::vector<PageStudy>& studies) {
  const Uses uses = uses_of(studies);
  std::vector<Term> terms;
  add_fit_terms(terms, uses);
  add_recover_terms(terms, uses);
  for (const Entry& quantity : kQuantities)
    if (uses.quantities.contains(quantity.key)) add(terms, quantity.name, quantity.meaning);
  if (uses.axes.contains("samples"))
    add(terms, "Training sets",
        "The number of sets, each a query with its keys and a target y, that a model is fitted to. Errors "
        "are measured "
        "on fresh sets.");
  if (uses.theory)
    add(terms, "Bound 2 sqrt(B E[K(x, x)] / n)",
        "The mean excess risk from n training sets is at most this, in units of y, for training over the "
        "ball of "
        "functions of squared norm B with a loss of slope 1, where B is the complexity of the target for "
        "infinitely many heads and K the kernel.");
  add(terms, "Seed",
      "One repetition of an experiment with its own random numbers. What is compared has the same seeds.");
  if (uses.intervals)
    add(terms, "95% interval",
        "A range that holds the true value in 95% of repetitions. The intervals of a finding hold for all "
        "its points "
        "together, the interval of a sample size or of a growth by itself.");
  return terms;
}

}  // namespace headlens::report
