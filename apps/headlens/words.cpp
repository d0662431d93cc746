#include "words.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace headlens::app {
namespace {

// Letters to change, insert, leave out or swap with a neighbour to turn one word into the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& other : known) {
    const bool begins = word.size() >= 3 && other.starts_with(word);
    const std::size_t apart = begins ? 1 : distance(word, other);
    if (apart < least && apart < other.size()) least = apart, best = other;
  }
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

std::vector<std::string> split_choices(const std::string& choices) {
  std::vector<std::string> words;
  if (choices.find('|') == std::string::npos) return words;
  std::istringstream text(choices);
  for (std::string word; std::getline(text, word, '|');) words.push_back(word);
  return words;
}

std::string unknown_choice(const std::string& word, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return "";
  std::string all;
  for (const std::string& other : known) all += (all.empty() ? "" : ", ") + other;
  return "'" + word + "' given, expected one of " + all + did_you_mean(word, known);
}

}  // namespace headlens::app
