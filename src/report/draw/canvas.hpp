// A drawing in pixels, origin at the top left, kept as a gnuplot script. gnuplot turns it into SVG, PDF and
// PNG; where things go is decided here, so the three look alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headlens::report {

struct Place {
  double x = 0, y = 0;
};

// Colours by role, in light; theme.cpp holds their dark counterparts.
namespace colour {
inline constexpr const char* kBack = "#ffffff";
inline constexpr const char* kInk = "#1f2328";
inline constexpr const char* kSoft = "#59636e";
inline constexpr const char* kAxis = "#b6bec7";
inline constexpr const char* kGrid = "#e8ebef";
}  // namespace colour

inline constexpr int kOpen = -1;  // gnuplot's filled markers have their outline one number below

// Colour, marker and line of a series: told apart without colour too.
struct SeriesStyle {
  std::string colour;
  int marker = 7;  // gnuplot's point type
  std::string dash;
};

enum class Anchor { left, centre, right };

struct TextStyle {
  double size = 12;
  Anchor anchor = Anchor::left;
  std::string colour = colour::kInk;
  bool bold = false, upright = false;  // upright: reads from bottom to top
};

class Canvas {
 public:
  Canvas(double width, double height) : width_(width), height_(height) {}

  void rectangle(Place from, Place to, const std::string& colour);
  void line(const std::vector<Place>& places, const std::string& colour, double width,
            const std::string& dash = "");
  void area(const std::vector<Place>& corners, const std::string& colour, double opacity);
  void markers(const std::vector<Place>& places, const std::string& colour, int marker, double size = 1);
  void text(Place place, std::string_view text, const TextStyle& style);

  double width() const { return width_; }
  double height() const { return height_; }
  std::string script(const std::string& name) const;      // draws NAME.svg, NAME.pdf and NAME.png
  std::string svg_script(const std::string& name) const;  // draws NAME.svg alone

 private:
  std::string block(const std::vector<Place>& places);
  std::string output(const std::string& terminal, const std::string& file) const;

  double width_, height_;
  int objects_ = 0, labels_ = 0, blocks_ = 0;
  std::string data_, settings_, plots_;
};

double text_width(std::string_view text, double size);  // a generous estimate: fonts differ

}  // namespace headlens::report
