#include "study/grid.hpp"

#include <fmt/format.h>

#include "headlens/error.hpp"
#include "study/cell_options.hpp"

namespace headlens {
namespace {

__extension__ using Word128 = unsigned __int128;

}  // namespace

double cell_count(const Study& study) {
  auto count = static_cast<double>(study.seeds.size());
  for (const StudyAxis& axis : study.axes) count *= static_cast<double>(axis.values.size());
  return count;
}

void for_each_choice(const Study& study, const std::function<void(const std::vector<std::size_t>&)>& visit) {
  std::vector<std::size_t> choice(study.axes.size(), 0);
  while (true) {
    visit(choice);
    std::size_t axis = choice.size();
    while (axis > 0 && choice[axis - 1] + 1 == study.axes[axis - 1].values.size()) choice[--axis] = 0;
    if (axis == 0) return;
    ++choice[axis - 1];
  }
}

StudyValues given_inputs(const Study& study, const std::vector<std::size_t>& choice) {
  StudyValues given = study.fixed;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const StudyAxis& axis = study.axes[i];
    if (axis.bundles.empty())
      given.emplace_back(axis.name, axis.values.at(choice[i]));
    else
      given.insert(given.end(), axis.bundles.at(choice[i]).begin(), axis.bundles.at(choice[i]).end());
  }
  return given;
}

std::vector<StudyCell> make_cells(const Study& study) {
  std::vector<StudyCell> cells;
  for_each_choice(study, [&](const std::vector<std::size_t>& choice) {
    StudyCell cell;
    for (std::size_t i = 0; i < choice.size(); ++i)
      cell.axes.emplace_back(study.axes[i].name, study.axes[i].values[choice[i]]);
    cell.inputs = complete_inputs(study.command, given_inputs(study, choice));
    for (const std::uint64_t seed : study.seeds) {
      cell.seed = seed;
      cell.key = cell_key(canonical_text(study.command, cell.inputs, seed));
      cells.push_back(cell);
    }
  });
  return cells;
}

std::string canonical_text(StudyCommand command, const StudyValues& inputs, std::uint64_t seed) {
  std::string out = fmt::format("headlens cell {}\ncommand {}\n", kCellFormat,
                                command == StudyCommand::fit ? "fit" : "recover");
  for (const auto& [option, value] : inputs) out += fmt::format("{} {}\n", option, text(value));
  return out + fmt::format("seed {}\n", seed);
}

std::string cell_key(const std::string& canonical) {
  // FNV-1a: prime 2^88 + 0x13b.
  const Word128 prime = (Word128{1} << 88) + 0x13b;
  Word128 hash = (Word128{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (const char c : canonical) hash = (hash ^ static_cast<unsigned char>(c)) * prime;
  return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(hash >> 64),
                     static_cast<std::uint64_t>(hash));
}

}  // namespace headlens
