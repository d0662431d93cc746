// The numbers behind a figure as CSV.
#include <fmt/format.h>

#include <optional>

#include "report/escape.hpp"
#include "report/tables.hpp"

namespace headlens::report {
namespace {

std::string theory_fields(const TheoryAt* at) {
  if (at == nullptr) return ",,,,,";
  return fmt::format(",{},{},{},{},{}", exact(at->predicted), exact(at->ratio), exact(at->standard_error),
                     exact(at->bound), exact(at->bound_as_nmse));
}

std::string slope_fields(const std::optional<Slope>& slope) {
  return slope ? fmt::format(",{},{},{}", exact(slope->value), exact(slope->lower), exact(slope->upper))
               : ",,,";
}

std::string growth_fields(const FigureData& data, const Curve& curve, const Point& point) {
  const auto share = data.growth.share_at(curve, point), beside = data.growth.beside_at(curve, point);
  const GrowthCurve& growth = *data.growth.find(curve);
  return fmt::format(",{},{}{}{}", share ? exact(*share) : "", beside ? exact(*beside) : "",
                     slope_fields(growth.factor), slope_fields(growth.power));
}

std::string more_columns(const FigureData& data) {
  if (!data.theory.empty()) return ",predicted,ratio,standard_error,bound,bound_as_nmse";
  if (!data.growth.empty())
    return ",success,beside,growth,growth_lower,growth_upper,power,power_lower,power_upper";
  return "";
}

std::string more_fields(const FigureData& data, const Curve& curve, const Point& point) {
  if (!data.theory.empty()) return theory_fields(data.theory.find(curve, point));
  return data.growth.empty() ? "" : growth_fields(data, curve, point);
}

std::string curve_csv(const FigureData& data) {
  const bool phase = data.spec.kind == FigureKind::phase_diagram;
  std::string text = fmt::format(
      "panel,{},{},quantity,seeds,median,q10,q90,mean,geometric_mean,min,max,failed,missing,dropped{}\n",
      phase ? field(data.spec.y) : "series", field(data.spec.x), more_columns(data));
  for (const Curve& curve : data.summary.curves)
    for (const Point& p : curve.points)
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}{}\n", field(curve.panel),
                          field(curve.series), field(headlens::text(p.x_value)), field(data.quantity),
                          p.values.size(), exact(p.median), exact(p.lower), exact(p.upper), exact(p.mean),
                          exact(p.geometric_mean), exact(p.smallest), exact(p.largest), p.failed, p.missing,
                          p.dropped, more_fields(data, curve, p));
  return text;
}

std::string bound(const Crossing& crossing) {
  static constexpr const char* kNames[] = {"at or before", "between", "not reached"};
  return fmt::format("{},{}", kNames[static_cast<int>(crossing.reach)], exact(crossing.n));
}

std::string sample_size_csv(const FigureData& data) {
  std::string text =
      fmt::format("panel,series,quantity,error,reach,{0},lower_reach,lower_{0},upper_reach,upper_{0}\n",
                  field(data.spec.x));
  for (const SampleSizeRow& row : data.sizes)
    for (const auto& size : row.sizes) {
      if (!size) continue;
      const std::string interval =
          size->interval ? bound(size->interval->first) + "," + bound(size->interval->second) : ",,,";
      text += fmt::format("{},{},{},{},{},{}\n", field(row.panel), field(row.series), field(data.quantity),
                          exact(size->error), bound(size->estimate), interval);
    }
  return text;
}

}  // namespace

std::string csv(const FigureData& data) {
  return data.spec.kind == FigureKind::sample_table ? sample_size_csv(data) : curve_csv(data);
}

}  // namespace headlens::report
