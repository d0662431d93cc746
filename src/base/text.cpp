#include "headlens/text.hpp"

namespace headlens {

std::string Mention::bare() const {
  if (value == "false") return "no-" + option;
  return value.empty() || value == "true" ? option : option + " " + value;
}

std::string on_command_line(const Mention& mention) { return "--" + mention.bare(); }

std::string Text::spelled(const Spelling& spelling) const {
  std::string out;
  std::size_t done = 0;
  for (const Place& place : places_) {
    out.append(words_, done, place.at - done);
    out += spelling(place.mention);
    done = place.at + place.size;
  }
  return out.append(words_, done);
}

std::string_view Text::subject() const {
  const bool leads = !places_.empty() && places_[0].at == 0 && words_.compare(places_[0].size, 1, ":") == 0;
  return leads ? std::string_view(places_[0].mention.option) : std::string_view();
}

Text& Text::operator+=(const Text& more) { return *this = message(*this, more); }

void TextWriter::add(const Mention& mention) {
  const std::string bare = mention.bare();
  places_.push_back({words_.view().size(), bare.size(), mention});
  words_ << bare;
}

void TextWriter::add(const Text& text) {
  const std::size_t start = words_.view().size();
  for (const Text::Place& place : text.places_)
    places_.push_back({start + place.at, place.size, place.mention});
  words_ << text.str();
}

Text TextWriter::finish() const {
  Text out(words_.str());
  out.places_ = places_;
  return out;
}

}  // namespace headlens
