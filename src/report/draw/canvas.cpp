#include "report/draw/canvas.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/escape.hpp"

namespace headlens::report {
namespace {

constexpr const char* kFont = "Liberation Sans";  // fontconfig finds the nearest where it is missing

const char* name(Anchor anchor) {
  return anchor == Anchor::left ? "left" : anchor == Anchor::centre ? "center" : "right";
}

std::string dash_option(const std::string& dash) { return dash.empty() ? "" : " dt " + dash; }

}  // namespace

double text_width(std::string_view text, double size) {
  const auto characters = std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
  return 0.58 * size * static_cast<double>(characters);
}

std::string Canvas::block(const std::vector<Place>& places) {
  std::string name = fmt::format("$d{}", ++blocks_);
  data_ += name + " << EOD\n";
  for (const Place& place : places) data_ += fmt::format("{:.2f} {:.2f}\n", place.x, place.y);
  data_ += "EOD\n";
  return name;
}

void Canvas::rectangle(Place from, Place to, const std::string& colour) {
  settings_ += fmt::format(
      "set object {} rectangle from first {:.2f},{:.2f} to first {:.2f},{:.2f} back fc rgb '{}' fs solid 1 "
      "noborder\n",
      ++objects_, from.x, from.y, to.x, to.y, colour);
}

void Canvas::line(const std::vector<Place>& places, const std::string& colour, double width,
                  const std::string& dash) {
  plots_ +=
      fmt::format(", {} with lines lc rgb '{}' lw {}{}", block(places), colour, width, dash_option(dash));
}

void Canvas::area(const std::vector<Place>& corners, const std::string& colour, double opacity) {
  plots_ += fmt::format(", {} with filledcurves closed fc rgb '{}' fs transparent solid {} noborder",
                        block(corners), colour, opacity);
}

void Canvas::markers(const std::vector<Place>& places, const std::string& colour, int marker, double size) {
  plots_ +=
      fmt::format(", {} with points lc rgb '{}' pt {} ps {} lw 1.5", block(places), colour, marker, size);
}

void Canvas::text(Place place, std::string_view text, const TextStyle& style) {
  settings_ +=
      fmt::format("set label {} {} at first {:.2f},{:.2f} {}{} front font '{}{},{}' tc rgb '{}'\n", ++labels_,
                  quoted(text), place.x, place.y, name(style.anchor), style.upright ? " rotate by 90" : "",
                  kFont, style.bold ? ":Bold" : "", style.size, style.colour);
}

std::string Canvas::output(const std::string& terminal, const std::string& file) const {
  return fmt::format("reset\nset terminal {} noenhanced font '{},12'\nset output '{}'\n", terminal, kFont,
                     file) +
         fmt::format(
             "unset key\nunset border\nunset tics\nset lmargin at screen 0\nset rmargin at screen 1\n"
             "set tmargin at screen 1\nset bmargin at screen 0\nset xrange [0:{}]\nset yrange [{}:0]\n",
             width_, height_) +
         settings_ + "plot NaN notitle" + plots_ + "\nset output\n";
}

std::string Canvas::svg_script(const std::string& name) const {
  const std::string terminal = fmt::format("svg size {},{} dynamic fontscale 1 rounded background '{}'",
                                           width_, height_, colour::kBack);
  return "set encoding utf8\n" + data_ + output(terminal, name + ".svg");
}

std::string Canvas::script(const std::string& name) const {
  // Sizes are pixels of the SVG, 96 to the inch; the PNG has two for each. The scales make text and lines of
  // the three equal: gnuplot's cairo outputs count fonts in points at 72 to the inch.
  const std::string back = fmt::format("background rgb '{}'", colour::kBack);
  return svg_script(name) +
         output(fmt::format("pdfcairo size {}in,{}in fontscale 0.56 linewidth 1.2 pointscale 1 rounded {}",
                            width_ / 96, height_ / 96, back),
                name + ".pdf") +
         output(fmt::format("pngcairo size {},{} fontscale 1.5 linewidth 2 pointscale 2.3 rounded {}",
                            2 * width_, 2 * height_, back),
                name + ".png");
}

}  // namespace headlens::report
