// What users write reaches each language as text and as nothing else.
#include "report/escape.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "report/draw/canvas.hpp"
#include "report/draw/scale.hpp"

namespace headlens::report {
namespace {

TEST(Escape, Html) {
  EXPECT_EQ(html("a < b & \"c\" > 'd'"), "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  EXPECT_EQ(html("two\nlines"), "two\nlines");
  EXPECT_EQ(html("⟨β, x⟩"), "⟨β, x⟩");
  EXPECT_EQ(html("\x1b[31m\xff"), "\\x1b[31m\\xff");  // neither terminals nor parsers are steered
}

TEST(Escape, GnuplotStringsExpandNothing) {
  EXPECT_EQ(quoted("it's `id` $x @y \"z\" {/Bold w}"), "'it''s `id` $x @y \"z\" {/Bold w}'");
  EXPECT_EQ(quoted("a\nplot 1"), "'a\\x0aplot 1'");  // a new line would begin a command
}

TEST(Escape, CsvFields) {
  EXPECT_EQ(field("plain"), "plain");
  EXPECT_EQ(field("a,b"), "\"a,b\"");
  EXPECT_EQ(field("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
}

TEST(Escape, FileNames) {
  EXPECT_EQ(slug("Bias, small (2)"), "bias-small-2");
  EXPECT_EQ(slug("../../etc/passwd"), "etc-passwd");
  EXPECT_EQ(slug("βγ"), "study");
  EXPECT_LE(slug(std::string(500, 'x')).size(), 60);
}

TEST(Escape, CutCountsCharactersNotBytes) {
  EXPECT_EQ(cut("abc", 3), "abc");
  EXPECT_EQ(cut("abcd", 3), "ab…");
  EXPECT_EQ(cut("βββ", 3), "βββ");
  EXPECT_EQ(cut("ββββ", 3), "ββ…");
}

TEST(Escape, Numbers) {
  EXPECT_EQ(number(0.012345), "0.0123");
  EXPECT_EQ(number(2048), "2048");
  EXPECT_EQ(axis_number(0.01), "0.01");
  EXPECT_EQ(axis_number(2e-5), "2·10⁻⁵");
  EXPECT_EQ(axis_number(1e6), "10⁶");
  EXPECT_EQ(axis_number(0), "0");
  EXPECT_EQ(exact(0.1), "0.1");
  EXPECT_EQ(exact(NAN), "");
}

TEST(Scale, MapsEndsAndKeepsRoomForConstants) {
  Scale scale({10, 1000}, 0);
  scale.set_pixels(0, 100);
  EXPECT_NEAR(scale(10), 0, 1e-9);
  EXPECT_NEAR(scale(100), 50, 1e-9);
  EXPECT_NEAR(scale(1000), 100, 1e-9);
  const Scale constant({0.5, 0.5}, 0.05);
  EXPECT_LT(constant.low(), 0.4);
  EXPECT_GT(constant.high(), 0.6);
  EXPECT_GE(constant.ticks().size(), 1U);
}

// A value of 0 or below has no logarithm.
TEST(Scale, IsLinearWithAZero) {
  for (const double least : {0.0, -2.0}) {
    Scale scale({4, least, 1}, 0.1);
    scale.set_pixels(0, 600);
    EXPECT_NEAR(scale(least), 600 * 0.1 / 1.2, 1e-9);
    EXPECT_NEAR(scale(4), 600 * 1.1 / 1.2, 1e-9);
    EXPECT_NEAR(scale((4 + least) / 2), 300, 1e-9);
  }
  Scale alone({0}, 0.1);
  alone.set_pixels(0, 600);
  EXPECT_NEAR(alone(0), 300, 300 - 1e-9);
}

TEST(Scale, TicksAreFewAndInside) {
  for (const double span : {1.1, 3.0, 50.0, 1e4, 1e12, 1e40}) {
    const Scale scale({1 / span, 1}, 0.05);
    const std::vector<Tick> ticks = scale.ticks();
    EXPECT_GE(ticks.size(), 1U) << span;
    EXPECT_LE(ticks.size(), 9U) << span;
    for (const Tick& tick : ticks) EXPECT_TRUE(tick.value >= scale.low() && tick.value <= scale.high());
  }
}

TEST(Scale, LabelsDoNotOverlap) {
  std::vector<double> values;
  std::vector<Tick> ticks;
  for (int i = 0; i < 40; ++i) {
    values.push_back(1000 + 10 * i);
    ticks.push_back({values.back(), std::to_string(1000 + 10 * i)});
  }
  Scale scale(values, 0);
  scale.set_pixels(0, 300);
  const std::vector<Tick> kept = thin(ticks, scale, 12);
  ASSERT_GE(kept.size(), 2U);
  for (std::size_t i = 1; i < kept.size(); ++i)
    EXPECT_GE(scale(kept[i].value) - scale(kept[i - 1].value), text_width(kept[i].label, 12));
}

}  // namespace
}  // namespace headlens::report
