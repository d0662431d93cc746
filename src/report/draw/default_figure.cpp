#include "report/draw/default_figure.hpp"

#include <algorithm>
#include <cctype>

#include "report/summarise.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

// The first of `wanted` that the study records, else the first quantity beside the outcome.
std::string quantity_of(const Study& study, const std::vector<std::string>& wanted) {
  const std::vector<std::string>& record = study.record;
  for (const std::string& name : wanted)
    if (std::find(record.begin(), record.end(), name) != record.end()) return name;
  const auto other =
      std::find_if(record.begin(), record.end(), [](const auto& name) { return name != "outcome"; });
  return other == record.end() ? "outcome" : *other;
}

bool has_numbers(const StudyAxis& axis) {
  return std::any_of(axis.values.begin(), axis.values.end(),
                     [](const StudyValue& v) { return as_number(v) > 0; });
}

std::vector<const StudyAxis*> varied(const Study& study) {
  std::vector<const StudyAxis*> axes;
  for (const StudyAxis& axis : study.axes)
    if (axis.values.size() > 1) axes.push_back(&axis);
  if (axes.empty() && !study.axes.empty()) axes.push_back(&study.axes.front());
  return axes;
}

// Sample sizes before all others, then the axis with the most numbers, then the first.
std::string main_axis(const std::vector<const StudyAxis*>& axes) {
  for (const char* name : {"samples", "examples-per-unknown", "count"})
    for (const StudyAxis* axis : axes)
      if (axis->name == name) return name;
  const StudyAxis* most = nullptr;
  for (const StudyAxis* axis : axes)
    if (has_numbers(*axis) && (most == nullptr || axis->values.size() > most->values.size())) most = axis;
  return most != nullptr ? most->name : axes.empty() ? "" : axes.front()->name;
}

std::string second_axis(const std::vector<const StudyAxis*>& axes, const std::string& x) {
  for (const char* name : {"model", "method"})
    for (const StudyAxis* axis : axes)
      if (axis->name == name && axis->name != x) return name;
  for (const StudyAxis* axis : axes)
    if (axis->name != x) return axis->name;
  return "";
}

}  // namespace

FigureSpec default_figure(const Study& study) {
  const std::vector<const StudyAxis*> axes = varied(study);
  FigureSpec figure;
  figure.x = main_axis(axes);
  const std::string other = second_axis(axes, figure.x);
  const bool numbers = std::any_of(axes.begin(), axes.end(),
                                   [&](const auto* a) { return a->name == figure.x && has_numbers(*a); });
  const std::string quantity =
      study.command == StudyCommand::fit
          ? quantity_of(study, {"nmse", "mse", "train-loss"})
          : quantity_of(study, {"success", "labels-learned", "worst-error", "held-out-error"});
  const bool truth = quantity == "success" || quantity == "labels-learned" || quantity == "set-found";
  if (numbers && !truth) {
    figure.kind = figure.x == "heads" ? FigureKind::head_curves : FigureKind::learning_curves;
    figure.y = quantity;
    figure.series = other;
  } else {
    figure.kind = FigureKind::phase_diagram;
    figure.quantity = quantity;
    figure.y = other;
  }
  std::string title = truth ? "share of seeds for which " + success_of(quantity) : term(quantity);
  title.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(title.front())));
  figure.title = title + " against " + term(figure.x);
  return figure;
}

}  // namespace headlens::report
