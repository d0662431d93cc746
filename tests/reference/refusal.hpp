// What a call that is wrong is refused with.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "headlens/error.hpp"

namespace headlens::reference {

template <class F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::misuse);
    return error.what();
  }
  return "no error";
}

}  // namespace headlens::reference
