// The main() of every test executable: repairs the BLAS core first, as the program does.
#include <gtest/gtest.h>

#include "headlens/blas_core.hpp"

int main(int argc, char** argv) {
  headlens::repair_blas_core(argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
