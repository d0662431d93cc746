// Targets f = (1/N) sum_i h(x_0, x_i) in harmonics: h = sum_ab h_ab, h_ab of degree a in x_0 and b in x_i.
//
//   power mean    h = sum_b c_b P_b(<beta, x_i>)                   t^p = sum_b c_b P_b(t)
//                 E[h_0b^2] = c_b^2 / D_b
//   query power   the same in x_0
//   correlation   h = sum_a c_a P_a(<x_0, S x_i>) <beta, x_i>      degrees a - 1 and a + 1 in x_i
//                 E[h_{a,a-1}^2] = c_a^2 / (D_a d) * a / (2a + d - 2)
//                 E[h_{a,a+1}^2] = c_a^2 / (D_a d) * (a + d - 2) / (2a + d - 2)
//
// S only turns x_0 and beta, to which both kernels are blind. Pure targets lack the parts where a or b is 0.
#pragma once

#include <vector>

#include "headlens/tasks.hpp"

namespace headlens {

struct TargetPart {
  Index query_degree = 0;
  Index key_degree = 0;
  double log_square = 0;  // log E[f_ab^2] on sets: E[h_ab^2], over N for b > 0
};

std::vector<TargetPart> expand(const TaskOptions& task);

}  // namespace headlens
