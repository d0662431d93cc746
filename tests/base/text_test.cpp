#include "headlens/text.hpp"

#include <gtest/gtest.h>

#include "headlens/error.hpp"

namespace headlens::test {
namespace {

std::string shout(const Mention& mention) { return "<" + mention.option + "|" + mention.value + ">"; }

TEST(TextTest, NamesOptionsBareAndSpellsThemAsAsked) {
  const Text said =
      message("Raise ", option("max-heads"), " (now ", 16, "), or use ", option("method", "varpro"), ".");
  EXPECT_EQ(said.str(), "Raise max-heads (now 16), or use method varpro.");
  EXPECT_EQ(said.spelled(shout), "Raise <max-heads|> (now 16), or use <method|varpro>.");
  EXPECT_EQ(said.spelled(on_command_line), "Raise --max-heads (now 16), or use --method varpro.");
  EXPECT_EQ(Text("no-option: --none").spelled(shout), "no-option: --none");
}

TEST(TextTest, FlagsAreNamedWithTheirState) {
  EXPECT_EQ(message(option("polish", "false")).spelled(on_command_line), "--no-polish");
  EXPECT_EQ(message(option("sequence", "true")).spelled(on_command_line), "--sequence");
}

TEST(TextTest, KeepsOptionsWhenPutTogether) {
  Text said = message(option("ridge"), ": 0 given; ");
  said += message("give ", option("norm-ball"));
  const Text whole = message("file.hlm: ", said);
  EXPECT_EQ(whole.spelled(shout), "file.hlm: <ridge|>: 0 given; give <norm-ball|>");
}

TEST(TextTest, TheSubjectIsAnOptionBeforeAColon) {
  EXPECT_EQ(message(option("ridge"), ": -1 given").subject(), "ridge");
  EXPECT_EQ(message(option("ridge"), " and more: -1").subject(), "");
  EXPECT_EQ(message("x: ", option("ridge"), ": -1").subject(), "");
  EXPECT_EQ(Text("ridge: -1 given").subject(), "");
}

TEST(TextTest, ErrorsCarryTheirText) {
  try {
    require(false, option("huber-delta"), ": ", -1, " given");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "huber-delta: -1 given");
    EXPECT_EQ(error.text().subject(), "huber-delta");
    EXPECT_EQ(error.text().spelled(on_command_line), "--huber-delta: -1 given");
  }
}

}  // namespace
}  // namespace headlens::test
