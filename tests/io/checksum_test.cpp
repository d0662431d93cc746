// The checksum is zip's, in one piece or in several.
#include "io/checksum.hpp"

#include <gtest/gtest.h>

#include <string>

namespace headlens::io {

TEST(Checksum, KnownValues) {
  EXPECT_EQ(checksum("", 0), 0U);
  EXPECT_EQ(checksum("123456789", 9), 0xcbf43926U);  // the check value of CRC-32/ISO-HDLC
}

TEST(Checksum, Continues) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(31 * i);
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(checksum(text.data() + cut, text.size() - cut, checksum(text.data(), cut)),
              checksum(text.data(), text.size()));
}

}  // namespace headlens::io
