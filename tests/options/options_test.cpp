// Every table of options: its rows are whole, its defaults are those of the struct and in range, and what
// text says is what the struct holds afterwards.
#include "headlens/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "headlens/fit.hpp"
#include "headlens/fourier.hpp"
#include "headlens/hardness.hpp"
#include "headlens/inspect.hpp"
#include "headlens/kernel.hpp"
#include "headlens/recover.hpp"
#include "headlens/study.hpp"
#include "headlens/tasks.hpp"
#include "headlens/theory.hpp"

namespace headlens::test {
namespace {

template <class Options>
std::string refusal(std::string_view name, const std::string& text) {
  Options options;
  try {
    set_option(options, name, text);
  } catch (const Error& error) {
    EXPECT_EQ(error.text().subject(), name);
    return error.what();
  }
  return "taken";
}

template <class Options>
class TableTest : public testing::Test {};
using Structs = testing::Types<FeatureOptions, FitOptions, KernelOptions, RecoverOptions, SculptOptions,
                               TaskOptions, TheoryOptions, TeacherOptions, ExampleOptions, HardOptions,
                               InspectOptions, WeightsOptions, FourierOptions, RunOptions, Execution>;
TYPED_TEST_SUITE(TableTest, Structs);

TYPED_TEST(TableTest, RowsAreWhole) {
  std::set<std::string> names;
  for (const auto& [info, member] : options_of<TypeParam>()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), std::string::npos) << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_EQ(info.help.str().find('\n'), std::string::npos) << info.name;
    EXPECT_EQ(info.help.str().find("--"), std::string::npos) << info.name << ": names of options are bare";
    EXPECT_EQ(info.shown.empty(), info.kind == OptionKind::flag) << info.name;
    EXPECT_TRUE(info.fallback.empty() || info.unset.empty()) << info.name;
  }
}

TYPED_TEST(TableTest, DefaultsAreInRange) { EXPECT_NO_THROW(check_ranges(TypeParam{})); }

// Reading a default changes nothing, and the numbers at the ends of a range are taken.
TYPED_TEST(TableTest, TextIsReadAsShown) {
  for (const auto& row : options_of<TypeParam>()) {
    const OptionInfo& info = row.info;
    const bool has_text = !std::holds_alternative<std::monostate>(row.member) &&
                          info.kind != OptionKind::matrix && info.kind != OptionKind::list;
    if (!has_text) continue;
    TypeParam options;
    if (!info.fallback.empty()) {
      set_option(options, row, info.fallback);
      EXPECT_EQ(option_text(options, row), info.fallback) << info.name;
    }
    if (!info.nothing.empty()) {
      EXPECT_NO_THROW(set_option(options, row, info.nothing)) << info.name;
    }
    for (const std::string& word : info.choices) {
      set_option(options, row, word);
      EXPECT_EQ(option_text(options, row), word);
    }
    if (info.kind != OptionKind::word || !info.choices.empty()) {
      EXPECT_THROW(set_option(options, row, "nonsense"), Error) << info.name;
    }
  }
}

TEST(OptionsTest, MessagesSayWhatWasExpected) {
  EXPECT_EQ(refusal<FitOptions>("ridge", "-1"), "ridge: -1 given, expected auto or a number, 0 or more");
  EXPECT_EQ(refusal<FitOptions>("ridge", "small"),
            "ridge: 'small' given, expected auto or a number, 0 or more");
  EXPECT_EQ(refusal<FitOptions>("huber-delta", "0"), "huber-delta: 0 given, expected a number above 0");
  EXPECT_EQ(refusal<FitOptions>("norm-ball", "1"),
            "norm-ball: '1' given, expected none or two numbers above 0");
  EXPECT_EQ(refusal<TaskOptions>("degree", "65"), "degree: 65 given, expected a whole number from 0 to 64");
  EXPECT_EQ(refusal<FeatureOptions>("heads", "9223372036854775807"),
            "heads: 9223372036854775807 given, expected inf or a whole number from 1 to 1000000000000");
  EXPECT_EQ(refusal<TaskOptions>("count", "1e3"), "count: '1e3' given, expected a whole number, 1 or more");
  EXPECT_EQ(refusal<FeatureOptions>("score", "tanh"),
            "score: 'tanh' given, expected one of relu, softmax, exp, step");
  EXPECT_EQ(refusal<FitOptions>("intercept", "yes"), "intercept: 'yes' given, expected true or false");
}

TEST(OptionsTest, WhatIsNoNumberIsRefused) {
  for (const char* text : {"", " 1", "1 ", "0x10", "1.0", "18446744073709551616", "nan"})
    EXPECT_NE(refusal<TaskOptions>("count", text), "taken") << text;
  for (const char* text : {"", "1e", "nan", "inf", "1e999", "1,2"})
    EXPECT_NE(refusal<TaskOptions>("noise", text), "taken") << text;
  EXPECT_NE(refusal<TaskOptions>("seed", "-1"), "taken");
  EXPECT_NE(refusal<FeatureOptions>("heads", "9223372036854775807"), "taken");  // inf has a word
  EXPECT_NE(refusal<RecoverOptions>("starts", "4294967297"), "taken");          // beyond an int
  EXPECT_NE(refusal<TeacherOptions>("rank", "0"), "taken");  // 0 is not what a person writes for full
}

TEST(OptionsTest, WordsStandForWhatIsNoNumber) {
  FeatureOptions features;
  set_option(features, "heads", "inf");
  EXPECT_TRUE(features.infinite());
  EXPECT_NO_THROW(check_ranges(features));
  FitOptions fit;
  set_option(fit, "norm-ball", "5,2");
  EXPECT_EQ(fit.norm_ball->k1, 5);
  EXPECT_EQ(fit.norm_ball->k2, 2);
  set_option(fit, "norm-ball", "none");
  EXPECT_FALSE(fit.norm_ball.has_value());
  set_option(fit, "ridge", "1e-3");
  EXPECT_EQ(*fit.ridge, 1e-3);
  set_option(fit, "ridge", "auto");
  EXPECT_FALSE(fit.ridge.has_value());
}

TEST(OptionsTest, WordsAreThoseOfTheEnumerations) {
  Execution execution;
  for (const BackendChoice choice : {BackendChoice::automatic, BackendChoice::cpu, BackendChoice::cuda}) {
    execution.backend = choice;
    EXPECT_EQ(option_text(execution, option_of<Execution>("backend")), name(choice));
  }
  EXPECT_EQ(name(RecoverMethod::linear_algebra), "linear-algebra");
  EXPECT_EQ(name(WeightsFormat::hugging_face), "hf");
  EXPECT_EQ(parse<Loss>("hinge"), Loss::hinge);
  EXPECT_THROW(parse<Loss>("absolute"), Error);
}

}  // namespace
}  // namespace headlens::test
