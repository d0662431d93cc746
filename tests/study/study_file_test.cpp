// Study files: what they say, and every way in which they can be wrong, with the line.
#include "studies.hpp"

namespace headlens::test {
namespace {

const std::string recover_text = R"(name = "r"
command = "recover"
seeds = [0]
[grid]
heads = [1, 2]
)";

void expect_refused(const std::string& text, std::initializer_list<std::string> fragments) {
  SCOPED_TRACE(text);
  expect_error([&] { parse_study(text, "s.toml"); }, fragments);
}

// tiny_text with one edit; the error must name the line.
struct Fault {
  std::string from, to;
  std::string line, fragment;
};

class Faults : public ::testing::TestWithParam<Fault> {};

}  // namespace

TEST(ShippedStudies, AreRead) {
  const auto folder = std::filesystem::path(HEADLENS_TEST_DIR) / ".." / "studies";
  for (const char* name : {"separation", "bias", "heads", "complexity", "theory", "recovery", "hardness"})
    for (const char* size : {"", "-small"}) {
      const Study study = read_study(folder / (std::string(name) + size + ".toml"));
      EXPECT_EQ(study.name, std::string(name) + size);
      EXPECT_GE(study.seeds.size(), 5U);
      EXPECT_FALSE(study.figures.empty());
    }
  for (const char* name : {"hardness-search", "hardness-labels"})
    EXPECT_EQ(read_study(folder / (std::string(name) + ".toml")).name, name);
}

// A study of one model, with a figure in lines 14 to 20 that asks for theory.
std::string with_theory(const std::string& model, const std::string& kind = "learning-curves") {
  return replaced(tiny_text, "{model = \"rfa\", heads = 5}", model) + "[[figure]]\nkind = \"" + kind + R"("
title = "t"
x = "samples"
y = "nmse"
series = "model"
theory = true
)";
}

TEST(StudyFile, AsksForTheory) {
  const std::string exact = "{model = \"rfa\", heads = \"inf\"}";
  EXPECT_TRUE(parse_study(with_theory(exact), "s.toml").figures[0].theory);
  EXPECT_TRUE(parse_study(with_theory("{model = \"mlp\", heads = \"inf\"}"), "s.toml").figures[0].theory);
  const std::string without = replaced(with_theory(exact), "theory = true", "theory = false");
  EXPECT_FALSE(parse_study(without, "s.toml").figures[0].theory);
  // One series of two is enough.
  EXPECT_TRUE(
      parse_study(with_theory(exact + "\nB = {model = \"rfa\", heads = 5}"), "s.toml").figures[0].theory);
}

TEST(StudyFile, RefusesTheoryThatSaysNothing) {
  const std::string line = ":19: figure.theory: theory says nothing about any cell of this study (";
  const auto exact = [](const std::string& more) { return "{heads = \"inf\", " + more + "}"; };
  expect_refused(with_theory("{model = \"brfa\", heads = 5}"), {line + "heads: theory knows"});
  expect_refused(with_theory("{heads = 5, norm-ball = \"1,1\"}"),
                 {line + "norm-ball: theory predicts ridge"});
  expect_refused(with_theory(exact("task = \"mixture\"")), {line + "mixture"});
  expect_refused(with_theory(exact("score = \"step\"")), {line + "score: step given, expected relu"});
  expect_refused(with_theory(exact("positions = \"sinusoidal\"")), {line + "positions"});
  expect_refused(with_theory(exact("bias-scale = 2.0")), {line + "scales"});
  expect_refused(with_theory(exact("weight-scale = 2.0")), {line + "scales"});
  expect_refused(with_theory(exact("loss = \"huber\"")), {line + "loss: huber given"});
  expect_refused(with_theory(exact("ridge = 0.1")), {line + "ridge"});
  expect_refused(with_theory(exact("intercept = false")), {line + "intercept"});
  const std::string good = with_theory("{heads = \"inf\"}");
  expect_refused(replaced(good, "keys = 3", "keys = \"2:3\""), {line + "keys: 2:3 given"});
  expect_refused(replaced(good, "y = \"nmse\"", "y = \"mse\""), {":19: figure.theory: theory predicts nmse"});
  expect_refused(replaced(good, "theory = true", "theory = 1"),
                 {":19: figure.theory: expected true or false"});
  expect_refused(with_theory("{heads = \"inf\"}", "head-curves"),
                 {":19: figure.theory: theory predicts nmse against heads"});
}

TEST(StudyFile, KeepsTheOrderOfTheFile) {
  const Study study = parse_study(R"(name = "s"
command = "fit"
seeds = [3, 1]
[grid]
samples = [20, 10]
dim = [4]
[variants.kind]
"b, plain" = {model = "rfa"}
a = {model = "mlp"}
[fixed]
noise = 1
)",
                                  "s.toml");
  ASSERT_EQ(study.axes.size(), 3U);
  EXPECT_EQ(study.axes[0].name, "samples");
  EXPECT_EQ(study.axes[1].name, "dim");
  EXPECT_EQ(study.axes[2].name, "kind");
  EXPECT_EQ(study.axes[0].values, (std::vector<StudyValue>{std::int64_t{20}, std::int64_t{10}}));
  EXPECT_EQ(study.axes[2].values, (std::vector<StudyValue>{std::string("b, plain"), std::string("a")}));
  EXPECT_EQ(study.axes[2].bundles[1], (StudyValues{{"model", std::string("mlp")}}));
  EXPECT_EQ(study.seeds, (std::vector<std::uint64_t>{3, 1}));
  EXPECT_EQ(study.fixed, (StudyValues{{"noise", 1.0}}));  // a real option, so a real number
  EXPECT_EQ(study.title, "s");
  EXPECT_EQ(study.record.front(), "outcome");
  EXPECT_GT(study.record.size(), 5U);
}

TEST(StudyFile, FiguresAndFindings) {
  const Study study = parse_study(tiny_text + R"([[figure]]
kind = "learning-curves"
title = "t"
x = "samples"
y = "nmse"
series = "model"
[[figure]]
kind = "sample-table"
title = "t"
x = "samples"
quantity = "nmse"
[[finding]]
text = "f"
quantity = "nmse"
x = "samples"
better = {model = "A"}
worse = {samples = 5}
from = 5
to = 20
)",
                                  "s.toml");
  ASSERT_EQ(study.figures.size(), 2U);
  EXPECT_EQ(study.figures[0].series, "model");
  EXPECT_EQ(study.figures[1].kind, FigureKind::sample_table);
  ASSERT_EQ(study.findings.size(), 1U);
  EXPECT_EQ(study.findings[0].worse, (StudyValues{{"samples", std::int64_t{5}}}));
  EXPECT_EQ(study.findings[0].to, 20);
}

// Lines of tiny_text: 1 name, 2 command, 3 seeds, 4 record, 5 [fixed], 6 dim, 7 keys, 8 test-samples, 9
// [grid], 10 samples, 11 [variants.model], 12 A.
INSTANTIATE_TEST_SUITE_P(
    Study, Faults,
    ::testing::Values(
        Fault{"name = \"tiny\"", "name = \"\"", ":1:", "name: is empty"},
        Fault{"name = \"tiny\"", "name = \"a b\"", ":1:", "expected letters"},
        Fault{"name = \"tiny\"", "name = 3", ":1:", "expected text"},
        Fault{"name = \"tiny\"", "nam = \"tiny\"", ":1:", "nam: unknown key (did you mean 'name'?)"},
        Fault{"name = \"tiny\"\n", "", ":1:", "name: missing"},
        Fault{"\"fit\"", "\"train\"", ":2:", "'train' given, expected fit or recover"},
        Fault{"[1, 2]", "[]", ":3:", "seeds: is empty"}, Fault{"[1, 2]", "3", ":3:", "expected an array"},
        Fault{"[1, 2]", "[1, -2]", ":3:", "0 or more"}, Fault{"[1, 2]", "[1, 1]", ":3:", "1 is given twice"},
        Fault{"\"mse\"", "\"mze\"", ":4:", "did you mean 'mse'?"},
        Fault{"\"mse\"", "\"nmse\"", ":4:", "given twice"}, Fault{"\"mse\"", "7", ":4:", "not a quantity"},
        Fault{"dim = 3", "dims = 3",
              ":6:", "fixed.dims: not an option of this command (did you mean 'dim'?)"},
        Fault{"dim = 3", "dim = 3.5", ":6:", "fixed.dim: '3.5' given, expected a whole number"},
        Fault{"dim = 3", "dim = 0", ":6:", "fixed.dim: 0 given, expected a whole number, 1 or more"},
        Fault{"dim = 3", "dim = [3]", ":6:", "expected a number, true, false or text"},
        Fault{"dim = 3", "dim = 3\ndim = 4", ":7:", "not TOML"},
        Fault{"dim = 3", "noise = nan", ":6:", "expected a finite number"},
        Fault{"dim = 3", "pure = true", ":6:", "fixed.pure: does not apply: the task is power-mean"},
        Fault{"dim = 3", "matrix = \"shift\"", ":6:", "does not apply"},
        Fault{"dim = 3", "task = \"sum\"", ":6:", "expected one of power-mean, correlation"},
        Fault{"dim = 3", "samples = 3", ":10:", "grid.samples: already given in line 6 as fixed.samples"},
        Fault{"dim = 3", "ridge = \"best\"", ":6:", "expected auto or a number"},
        Fault{"dim = 3", "loss = \"hinge\"", ":6:", "expected one of squared, huber"},
        Fault{"dim = 3", "huber-delta = 1", ":6:", "does not apply: the loss is squared"},
        Fault{"keys = 3", "keys = \"3:x\"", ":7:", "expected N or"},
        Fault{"keys = 3", "keys = \"5:3\"", ":7:", "keys: 5:3 given"},
        Fault{"test-samples = 20", "test-samples = 0", ":8:", "test-samples: 0 given"},
        Fault{"seeds", "figure = 3\nseeds", ":3:", "figure: expected an array"},
        Fault{"seeds", "finding = [3]\nseeds", ":3:", "finding: expected tables"},
        Fault{"seeds", "fixed = 3\nseeds", ":6:", "not TOML"},
        Fault{"[5, 10, 20, 30, 40]", "[]", ":10:", "grid.samples: is empty"},
        Fault{"[5, 10, 20, 30, 40]", "[5, 5]", ":10:", "'5' is given twice"},
        Fault{"[5, 10, 20, 30, 40]", "[5, \"x\"]", ":10:", "'x' given, expected a whole number"},
        Fault{"[5, 10, 20, 30, 40]", "[5, -1]", ":10:", "samples: -1 given, expected 1 or more"},
        Fault{"[5, 10, 20, 30, 40]", "5", ":10:", "expected an array"},
        Fault{"{model = \"rfa\", heads = 5}", "{model = \"rf\"}",
              ":12:", "variants.model.A.model: 'rf' given, expected one of rfa, brfa, mlp"},
        Fault{"{model = \"rfa\", heads = 5}", "{modle = \"rfa\"}", ":12:", "did you mean 'model'?"},
        Fault{"{model = \"rfa\", heads = 5}", "{dim = 4}", ":12:", "already given in line 6"},
        Fault{"{model = \"rfa\", heads = 5}", "{samples = 4}", ":12:", "already given in line 10"},
        Fault{"{model = \"rfa\", heads = 5}", "3", ":12:", "expected a table"},
        Fault{"heads = 5", "heads = \"many\"",
              ":12:", "'many' given, expected inf or a whole number from 1 to"},
        Fault{"[variants.model]\nA = {model = \"rfa\", heads = 5}", "[variants.samples]\nA = {heads = 5}",
              ":11:", "variants.samples: is an axis already"},
        Fault{"A = {model = \"rfa\", heads = 5}", "", ":11:", "variants.model: is empty"}));

TEST_P(Faults, AreNamedWithTheirLine) {
  const Fault& fault = GetParam();
  expect_refused(replaced(tiny_text, fault.from, fault.to), {"s.toml" + fault.line, fault.fragment});
}

TEST(StudyFile, OptionsOfTheOtherCommandAreRefused) {
  expect_refused(recover_text + "samples = [1]\n", {"s.toml:6: grid.samples: not an option"});
  expect_refused(recover_text + "[fixed]\nmax-heads = 4\n", {":7: fixed.max-heads: does not apply"});
  expect_refused(recover_text + "[fixed]\ncount = 4\nexamples-per-unknown = 2\n", {":7: fixed.count: given"});
  expect_refused(recover_text + "[fixed]\nexamples-per-unknown = 0\n", {":7: fixed.examples-per-unknown"});
  expect_refused(recover_text + "[fixed]\nmethod = \"moments\"\nstarts = 3\n",
                 {":8: fixed.starts: does not apply: the method is moments"});
  expect_refused(recover_text + "[fixed]\nrank = 9\n", {":7: fixed.rank: 9 given, expected at most dim = 8"});
}

TEST(StudyFile, MethodsSayWhatTheyNeed) {
  expect_refused(recover_text + "[fixed]\nmethod = \"moments\"\ntokens = 3\n",
                 {":8: fixed.tokens: 3 given, expected 4 or more with method moments"});
  expect_refused(recover_text + "[fixed]\nmethod = \"gradient\"\nheads-known = false\n",
                 {":8: fixed.heads-known: false given, expected true with method gradient"});
  EXPECT_NO_THROW(parse_study(recover_text + "[fixed]\nmethod = \"gradient\"\n", "s.toml"));
  EXPECT_NO_THROW(parse_study(recover_text + "[fixed]\nmethod = \"moments\"\ntokens = 4\n", "s.toml"));
}

TEST(StudyFile, NormBallOfTheoryTakesTheUsualScalesByTheirValue) {
  const auto with = [](const std::string& model, const std::string& scale) {
    return replaced(
        replaced(tiny_text, "dim = 3", "dim = 3\nnorm-ball = \"theory\"\nintercept = false\n" + scale),
        "model = \"rfa\"", "model = \"" + model + "\"");
  };
  for (const char* usual : {"", "weight-scale = 0.5", "bias-scale = 0"})
    EXPECT_NO_THROW(parse_study(with("rfa", usual), "s.toml")) << usual;
  // 1 / sqrt(2 (N + 1)) with 3 keys
  EXPECT_NO_THROW(parse_study(with("mlp", "weight-scale = 0.35355339059327373"), "s.toml"));
  for (const char* other : {"weight-scale = 0.6", "bias-scale = 1"})
    expect_refused(with("rfa", other), {":7: fixed.norm-ball: theory given"});
  expect_refused(with("mlp", "weight-scale = 0.5"), {":7: fixed.norm-ball: theory given"});
}

TEST(StudyFile, OptionsOfHardLayers) {
  // Lines: 5 dim, 6 [fixed], 7 layer, 8 what is tried.
  const std::string hard =
      replaced(recover_text, "heads = [1, 2]", "dim = [8]") + "[fixed]\nlayer = \"hard-parity\"\n";
  EXPECT_NO_THROW(parse_study(hard + "sharpness = 10\nflips = 0.05\n", "s.toml"));
  expect_refused(hard + "tokens = 4\n", {":8: fixed.tokens: does not apply: the layer is hard-parity"});
  expect_refused(hard + "modulus = 4\n", {":8: fixed.modulus: does not apply"});
  expect_refused(hard + "method = \"moments\"\n", {":8: fixed.method: moments needs four tokens"});
  const std::string rounding = replaced(hard, "hard-parity", "hard-rounding");
  for (const char* good : {"width = 3\n", "width = \"auto\"\n", ""})
    EXPECT_NO_THROW(parse_study(rounding + good, "s.toml")) << good;
  for (const char* bad : {"0", "-1", "\"wide\""})
    expect_refused(rounding + "width = " + bad + "\n",
                   {":8: fixed.width: ", " given, expected 1 or more, or auto"});
  expect_refused(hard + "flips = 2\n", {":8: fixed.flips: 2 given, expected a share"});
  expect_refused(hard + "heads = 3\n", {":8: fixed.heads: 3 given, expected an even number"});
  expect_refused(hard + "heads = 20\n", {":8: fixed.heads: 20 given, expected at most 2 (dim - 1) = 14"});
  expect_refused(recover_text + "[fixed]\nflips = 0.1\n", {":7: fixed.flips: does not apply"});
  expect_refused(recover_text + "[fixed]\nlayer = \"soft\"\n",
                 {":7: fixed.layer: 'soft' given, expected one of"});
  expect_refused(recover_text + "[fixed]\nmethod = \"brute-force\"\nstarts = 3\n",
                 {":8: fixed.starts: does not apply: the method is brute-force"});
}

TEST(StudyFile, Growth) {
  const std::string figure =
      tiny_text + "[[figure]]\nkind = \"growth\"\ntitle = \"t\"\nx = \"samples\"\ny = \"nmse\"\n";
  const Study study = parse_study(figure + "beside = \"nmse\"\nsuccess = \"nmse\"\n", "s.toml");
  EXPECT_EQ(study.figures[0].kind, FigureKind::growth);
  EXPECT_EQ(study.figures[0].beside, "nmse");
  expect_refused(figure + "beside = \"samples\"\n", {":18: figure.beside: 'samples' is not recorded"});
  expect_refused(replaced(figure, "growth", "learning-curves") + "success = \"nmse\"\n",
                 {":18: figure.success: means nothing"});
}

TEST(StudyFile, WrongFiguresAndFindings) {
  const std::string figure = tiny_text + "[[figure]]\nkind = \"learning-curves\"\ntitle = \"t\"\n";
  expect_refused(figure + "x = \"sample\"\ny = \"nmse\"\n",
                 {":16: figure.x: 'sample' is not an axis", "samples"});
  expect_refused(figure + "x = \"samples\"\ny = \"ridge\"\n", {":17: figure.y: 'ridge' is not recorded"});
  expect_refused(figure + "y = \"nmse\"\n", {":13: figure.x: missing"});
  expect_refused(figure + "x = \"samples\"\ny = \"nmse\"\nquantity = \"mse\"\n",
                 {":18: figure.quantity: means"});
  expect_refused(tiny_text + "[[figure]]\nkind = \"pie\"\n", {":14: figure.kind: 'pie' is not a kind"});
  const std::string finding =
      tiny_text +
      "[[finding]]\ntext = \"f\"\nquantity = \"nmse\"\nx = \"samples\"\nbetter = {model = \"A\"}\n";
  expect_refused(finding, {":13: finding.worse: missing"});
  expect_refused(finding + "worse = {model = \"B\"}\n", {":18: finding.worse.model: 'B' is not a value"});
  expect_refused(finding + "worse = {mode = \"A\"}\n", {":18: finding.worse.mode: unknown key"});
  expect_refused(finding + "worse = {model = \"A\"}\nfrom = 9\nto = 3\n", {":19: finding.from: is above to"});
}

TEST(StudyFile, NotToml) {
  expect_refused("name = \n", {"s.toml:1: not TOML"});
  expect_refused("name = \"x\"\n\n\xff\n", {"s.toml:3: byte 255 is not UTF-8"});
  expect_refused("a = \"\xc0\x80\"", {":1: byte 192 is not UTF-8"});
  expect_refused("a = \"\xed\xa0\x80\"", {":1: byte 237"});
  expect_refused("a = 1\nb\xc3\xa9 = 2", {"s.toml:2: not TOML"});
  expect_refused("a = \"\\\xc3\xa9\"", {"s.toml:1: not TOML"});
  expect_refused(std::string(2 << 20, '#'), {"expected a study of at most 1 MiB"});
}

TEST(StudyFile, TextMayHoldAnything) {
  const std::string odd = "\xc3\xa9@40;@ \xf0\x9f\x98\x80";
  const Study study = parse_study(
      replaced(tiny_text, "A = ", "'" + odd + "' = ") + "[[finding]]\ntext = \"" + odd +
          "\"\nquantity = \"nmse\"\nx = \"samples\"\nworse = {samples = 5}\nbetter = {model = \"" + odd +
          "\"}\n",
      "s");
  EXPECT_EQ(study.axes[1].values[0], StudyValue{odd});
  for (const char* escaped :
       {"\\u0040", "\\u0040ff;", "\\u0040c3;", "\\u0040c3a9", "\\u004041;", "\\u0040;"}) {
    const Study other = parse_study("title = \"" + std::string(escaped) + "\"\n" + tiny_text, "s");
    EXPECT_EQ(other.title, "@" + std::string(escaped).substr(6));
  }
  EXPECT_EQ(study.findings[0].text, odd);
  EXPECT_EQ(study.findings[0].better[0].second, StudyValue{odd});
  expect_refused(replaced(tiny_text, "dim = 3", "\"d\xc3\xa9m\" = 3"),
                 {":6: fixed.d\xc3\xa9m: not an option"});
}

TEST(StudyFile, TooManyCells) {
  std::string many = "[0";
  for (int i = 1; i < 400; ++i) many += ", " + std::to_string(i);
  expect_refused(replaced(replaced(tiny_text, "[5, 10, 20, 30, 40]", replaced(many, "[0", "[400") + "]"),
                          "[1, 2]", many + "]"),
                 {"160000 cells, expected at most 100000"});
}

TEST(StudyFile, MissingFileAndFolder) {
  expect_error([] { read_study("/nonexistent/x.toml"); }, {"cannot read /nonexistent/x.toml"},
               ErrorCode::environment);
  expect_error([] { read_study("/tmp"); }, {"it is a folder"}, ErrorCode::environment);
}

TEST(Overrides, ReplaceValuesWhereTheyStand) {
  const std::string text =
      replaced(tiny_text, "samples = [5, 10, 20, 30, 40]", "samples = [5,\n 7] # \xc3\xa9");
  EXPECT_EQ(with_override(text, "grid.samples=[1, 2]", "s"),
            replaced(tiny_text, "samples = [5, 10, 20, 30, 40]", "samples = [1, 2] # \xc3\xa9"));
  EXPECT_EQ(with_override(tiny_text, "seeds = [9]", "s"), replaced(tiny_text, "[1, 2]", "[9]"));
  EXPECT_EQ(with_override(tiny_text, "variants.model.A={heads=7}", "s"),
            replaced(tiny_text, "{model = \"rfa\", heads = 5}", "{heads=7}"));
  EXPECT_EQ(with_override("a = \"\xc3\xa9\xc3\xa9\" # x\nb = \"\xc3\xa9\"", "a=1", "s"),
            "a = 1 # x\nb = \"\xc3\xa9\"");
}

TEST(Overrides, AddKeysUnderTheirTable) {
  EXPECT_EQ(with_override(tiny_text, "fixed.noise=0.5", "s"),
            replaced(tiny_text, "[fixed]\n", "[fixed]\nnoise = 0.5\n"));
  EXPECT_EQ(with_override(tiny_text, "title=\"t\"", "s"), "title = \"t\"\n" + tiny_text);
  EXPECT_EQ(with_override("a = 1\n", "b.c=2", "s"), "a = 1\n\n[b]\nc = 2\n");
  EXPECT_EQ(with_override("[b]", "b.c=2", "s"), "[b]\nc = 2\n");
  EXPECT_EQ(with_override("a = '\xc3\xa9'\n", "'\xc3\xa9 @'.c='\xc3\xa9'", "s"),
            "a = '\xc3\xa9'\n\n['\xc3\xa9 @']\nc = '\xc3\xa9'\n");
}

TEST(Overrides, WrongOnes) {
  for (const char* text : {"", "grid.samples", "a=1\nb=2", "[grid]\nsamples=[1]", "=1", "a=1 b"})
    expect_error([&] { with_override(tiny_text, text, "s"); }, {"set"});
  expect_error([] { with_override(tiny_text, "variants.model.A.heads=2", "s"); }, {"set it as a whole"});
  expect_error([] { with_override(tiny_text, "fixed={dim=2}", "s"); }, {"set its keys one by one"});
}

class OverrideFile : public FolderTest {};

TEST_F(OverrideFile, AreInTheSource) {
  write_bytes(folder / "s.toml", tiny_text);
  const Study study = read_study(folder / "s.toml", {"grid.samples=[6]", "fixed.noise=0.1"});
  EXPECT_EQ(study.axes[0].values.size(), 1U);
  EXPECT_EQ(parse_study(study.source, "again").fixed, study.fixed);
  expect_error([&] { read_study(folder / "s.toml", {"grid.sample=[6]"}); }, {"with set", "grid.sample: not"});
}

}  // namespace headlens::test
