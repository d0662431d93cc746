// headlens plan fit: what a fit on many ranks would take.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "headlens/arrays.hpp"
#include "headlens/bytes.hpp"
#include "headlens/error.hpp"
#include "headlens/forecast.hpp"

namespace headlens::app {
namespace {

struct PlanArguments {
  CommonOptions common;
  ForecastOptions plan;
  std::string mean;
};

std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit) bytes /= 1024;
  return fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.2f} s", seconds);
  return seconds < 7200 ? fmt::format("{:.1f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

int run(const PlanArguments& a) {
  ForecastOptions options = a.plan;
  if (!a.mean.empty()) options.fit.features.mean = read_npy(a.mean);
  const Forecast plan = forecast_fit(options, a.common.execution());
  Json memory = Json::array(), phases = Json::array();
  std::string text = fmt::format("{} fit of {:.10g} sets on {} ranks\nmemory per rank", plan.route,
                                 options.count, options.ranks);
  for (const ForecastPart& part : plan.memory) {
    memory.push_back({{"name", part.name}, {"bytes", part.value}});
    text += fmt::format("\n  {:<34} {:>12}", part.name, bytes_text(part.value));
  }
  text += fmt::format("\n  {:<34} {:>12}\ntime", "in all", bytes_text(plan.bytes()));
  for (const ForecastPart& part : plan.phases) {
    phases.push_back({{"name", part.name}, {"seconds", part.value}});
    text += fmt::format("\n  {:<34} {:>12}", part.name, seconds_text(part.value));
  }
  text += fmt::format(
      "\n  {:<34} {:>12}\nexchanged per rank {}; rates from a trial of {:.1f} s on this machine", "in all",
      seconds_text(plan.seconds()), bytes_text(plan.exchanged_bytes), plan.trial_seconds);
  print(a.common,
        {{"route", plan.route},
         {"memory", memory},
         {"peak_bytes", plan.bytes()},
         {"phases", phases},
         {"seconds", plan.seconds()},
         {"exchanged_bytes", plan.exchanged_bytes},
         {"trial_seconds", plan.trial_seconds}},
        text);
  return kOk;
}

template <class Value>
void add_number(Command& command, const char* name, const char* shown, const char* help, const char* fallback,
                Value& value) {
  const OptionInfo info{
      .name = name, .shown = shown, .help = help, .kind = OptionKind::real, .fallback = fallback};
  command.add_option(info, [&value, info](const std::string& text) {
    const double number = read_real(info, text);
    require(static_cast<double>(static_cast<Value>(number)) == number, option(info.name), ": '", text,
            "' given, expected a whole number");
    value = static_cast<Value>(number);
  });
}

}  // namespace

void add_plan(Command& app) {
  auto a = std::make_shared<PlanArguments>();
  Command& plan = app.add_command("plan", "What a fit on many ranks would take in memory and time");
  plan.require_command();
  Command& command = plan.add_command("fit", "Memory per rank and time per phase of a fit");
  add_number(command, "count", "N", "sets, as 1000000 or 1e9", "1e6", a->plan.count);
  add_number(command, "ranks", "R", "processes that mpirun will start", "1", a->plan.ranks);
  add_number(command, "dim", "D", "coordinates of a token", "16", a->plan.dim);
  add_number(command, "keys", "K", "keys per set", "16", a->plan.keys);
  add_number(command, "outputs", "Q", "columns of y", "1", a->plan.outputs);
  add_number(command, "bandwidth", "B", "bytes per second between two ranks", "1e9", a->plan.bandwidth);
  add_feature_options(command, a->plan.fit.features, a->mean, {"model", "heads", "score"});
  command.add_options(a->plan.fit, {"ridge"});
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.set_footer(
      "Rates come from a trial of about a second on this machine with --threads threads. Reading files is "
      "not counted.\n\n"
      "Example:\n"
      "  headlens plan fit --count 1e9 --ranks 64 --dim 16 --keys 16 --heads 500 --threads 1");
  command.set_action([a] { return run(*a); });
  plan.set_footer("Example:\n  headlens plan fit --count 1e9 --ranks 64");
}

}  // namespace headlens::app
