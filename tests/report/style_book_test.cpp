// A model has one colour, in whatever figure, study or order it appears.
#include "report/draw/style_book.hpp"

#include <gtest/gtest.h>

#include "report/planted.hpp"

namespace headlens::report {
namespace {

using namespace std::string_literals;

// One series per name; `option` of its cells has the value beside the name.
Summary summary_of(const std::vector<std::pair<std::string, std::string>>& series,
                   const std::string& option) {
  std::vector<StudyValue> names;
  for (const auto& item : series) names.emplace_back(item.first);
  StudyResults results = planted({axis("samples", {64L, 128L}), axis("series", names)}, 2,
                                 [](const StudyValues&, std::uint64_t) -> StudyValues {
                                   return {{"nmse", 0.5}};
                                 });
  for (StudyCell& cell : results.cells)
    for (const auto& [name, value] : series)
      if (word(cell.axes, "series") == name && !value.empty()) cell.inputs.emplace_back(option, value);
  return summarise(results, {"samples", "nmse", "", "series", true});
}

std::vector<std::string> colours(const std::vector<SeriesStyle>& styles) {
  std::vector<std::string> found;
  for (const SeriesStyle& style : styles) found.push_back(style.colour);
  return found;
}

using Colours = std::vector<std::string>;
const std::string rfa = "#0072b2", mlp = "#d55e00", brfa = "#009e73";

TEST(StyleBook, AModelHasOneColourInAnyOrder) {
  StyleBook book;
  EXPECT_EQ(colours(book.styles(summary_of({{"RFA", ""}, {"RFMLP", ""}}, "model"))), (Colours{rfa, mlp}));
  EXPECT_EQ(colours(book.styles(summary_of({{"BRFA", ""}, {"RFA", ""}}, "model"))), (Colours{brfa, rfa}));
  EXPECT_EQ(colours(StyleBook().styles(summary_of({{"RFMLP", ""}, {"BRFA", ""}, {"RFA", ""}}, "model"))),
            (Colours{mlp, brfa, rfa}));
}

TEST(StyleBook, ItsOptionCountsAndNotWhatAStudyCallsIt) {
  StyleBook book;
  EXPECT_EQ(colours(book.styles(summary_of({{"plain", "mlp"}, {"attention", "rfa"}}, "model"))),
            (Colours{mlp, rfa}));
  EXPECT_EQ(colours(book.styles(summary_of({{"alone", "brfa"}}, "model"))), (Colours{brfa}));
}

TEST(StyleBook, TwoSeriesOfOneModelDifferByMarkerAndLine) {
  StyleBook book;
  const auto styles = book.styles(summary_of({{"few", "rfa"}, {"many", "rfa"}, {"plain", "mlp"}}, "model"));
  EXPECT_EQ(colours(styles), (Colours{rfa, rfa, mlp}));
  EXPECT_NE(styles[0].marker, styles[1].marker);
  EXPECT_NE(styles[0].dash, styles[1].dash);
}

TEST(StyleBook, OtherSeriesNeverHaveAColourOfAModel) {
  StyleBook book;
  const auto found = colours(book.styles(summary_of({{"1", "rfa"}, {"2", "rfa"}, {"3", "rfa"}}, "model")));
  for (const std::string& colour : found)
    for (const std::string& model : {rfa, mlp, brfa}) EXPECT_NE(colour, model);
  // And they keep theirs on a page, as long as no two of a figure get the same.
  EXPECT_EQ(colours(book.styles(summary_of({{"3", "rfa"}, {"1", "rfa"}}, "model"))),
            (Colours{found[2], found[0]}));
  const auto mixed = colours(book.styles(summary_of({{"4", "rfa"}, {"1", "rfa"}}, "model")));
  EXPECT_NE(mixed[0], mixed[1]);
}

TEST(StyleBook, MethodsHaveColoursToo) {
  const auto first = StyleBook().styles(summary_of({{"a", "varpro"}, {"b", "sculpt"}}, "method"));
  const auto second =
      StyleBook().styles(summary_of({{"b", "sculpt"}, {"c", "brute-force"}, {"a", "varpro"}}, "method"));
  EXPECT_EQ(first[0].colour, second[2].colour);
  EXPECT_EQ(first[1].colour, second[0].colour);
}

TEST(StyleBook, TellsSeriesApartWithoutColour) {
  // Markers alone differ for the first 6 series, colour and marker together for 36.
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(plain_style(i).marker, plain_style(k).marker);
  for (std::size_t i = 0; i < 36; ++i)
    for (std::size_t k = 0; k < i; ++k)
      EXPECT_FALSE(plain_style(i).marker == plain_style(k).marker &&
                   plain_style(i).colour == plain_style(k).colour);
}

}  // namespace
}  // namespace headlens::report
