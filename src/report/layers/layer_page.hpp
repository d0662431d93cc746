// A page about one recovery, match or refit: what was found in words, tables, and figures.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/match.hpp"
#include "headlens/recover.hpp"
#include "report/layers/chart.hpp"

namespace headlens::report {

struct LayerFigure {
  std::string name, title, caption;  // name: of its files
  Canvas wide, narrow;
  std::string csv;
};

enum class Mood { good, middling, bad, open };

struct LayerPage {
  std::string title, status;
  Mood mood = Mood::open;
  std::vector<std::string> words;                          // paragraphs: what was found, what to do next
  std::vector<std::pair<std::string, std::string>> facts;  // name and value
  std::vector<std::vector<std::string>> table;             // the first row is its head; empty: none
  std::string details;                                     // the whole report as text
  std::vector<LayerFigure> figures;
};

// Returns index.html of the folder, which is written whole or not at all.
std::filesystem::path write_page(const LayerPage& page, const std::filesystem::path& folder,
                                 const Execution& execution);

LayerFigure figure_of(const std::string& name, const std::string& title, const std::string& caption,
                      const Chart& chart);
LayerFigure figure_of(const std::string& name, const std::string& title, const std::string& caption,
                      const Grids& grids);

// Parts that the pages share.
LayerFigure spectra(const LayerHeads& layer, const std::string& name, const std::string& title);
// What every head attends to in the first example; `causal` where the layer does not tell.
LayerFigure attention(const LayerHeads& layer, const Tokens& tokens);
void add_trace(const std::vector<TracePoint>& trace, LayerPage& page);

}  // namespace headlens::report
