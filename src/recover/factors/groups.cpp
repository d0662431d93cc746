#include "recover/factors/groups.hpp"

#include <algorithm>
#include <complex>
#include <utility>

#include "linalg/blas.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"
#include "recover/factors/biases.hpp"
#include "recover/factors/content.hpp"

namespace headlens::recovery {
namespace {

// The heads first .. first + count of a layer as one: side by side K and V, Q and O as blocks of a diagonal.
OwnHead diagonal(const std::vector<const OwnHead*>& heads) {
  const Index d = heads[0]->v.rows(), e = heads[0]->o.cols(), count = static_cast<Index>(heads.size());
  Index logits = 0, values = 0;
  for (const OwnHead* head : heads) logits += head->q.cols(), values += head->v.cols();
  OwnHead out{Matrix<double>::zeros(count * d, logits),
              Matrix<double>(d, logits),
              Matrix<double>(d, values),
              Matrix<double>::zeros(values, count * e),
              {}};
  Index a = 0, b = 0;
  for (Index i = 0; i < count; ++i) {
    const OwnHead& head = *heads[static_cast<std::size_t>(i)];
    copy_rows(head.q.view(), out.q.view().block(i * d, a, d, head.q.cols()));
    copy_rows(head.k.view(), out.k.view().block(0, a, d, head.k.cols()));
    copy_rows(head.v.view(), out.v.view().block(0, b, d, head.v.cols()));
    copy_rows(head.o.view(), out.o.view().block(b, i * e, head.o.rows(), e));
    a += head.q.cols();
    b += head.v.cols();
  }
  return out;
}

using Complex = std::complex<double>;

// The pair of columns of a matrix as complex numbers.
Complex at(const Matrix<double>& a, Index row, std::pair<Index, Index> pair) {
  return {a(row, pair.first), a(row, pair.second)};
}
void put(Complex value, Index row, std::pair<Index, Index> pair, Matrix<double>& a) {
  a(row, pair.first) = value.real();
  a(row, pair.second) = value.imag();
}
double squares_of(const Matrix<double>& a, std::pair<Index, Index> pair) {
  double out = 0;
  for (Index row = 0; row < a.rows(); ++row) out += std::norm(at(a, row, pair));
  return out;
}

// One pair of columns that turn: every k_i is about k c_i for the k of the head whose pair is largest, and
// q_i k_i^* = (q_i c_i^*) k^*.
void tie_pair(const std::vector<const OwnHead*>& heads, std::pair<Index, Index> pair, OwnHead& tall) {
  const Index d = tall.k.rows();
  const OwnHead& most =
      **std::max_element(heads.begin(), heads.end(), [&](const OwnHead* a, const OwnHead* b) {
        return squares_of(a->q, pair) * squares_of(a->k, pair) <
               squares_of(b->q, pair) * squares_of(b->k, pair);
      });
  const double size = std::max(squares_of(most.k, pair), 1e-300);
  for (Index row = 0; row < d; ++row) put(at(most.k, row, pair), row, pair, tall.k);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    Complex c = 0;
    for (Index row = 0; row < d; ++row)
      c += std::conj(at(most.k, row, pair)) * at(heads[i]->k, row, pair) / size;
    for (Index row = 0; row < d; ++row)
      put(at(heads[i]->q, row, pair) * std::conj(c), static_cast<Index>(i) * d + row, pair, tall.q);
  }
}

OwnHead tall_of(const std::vector<const OwnHead*>& heads) {
  const Index logits = heads[0]->q.cols(), values = heads[0]->v.cols();
  OwnHead out = cut_to(balanced(diagonal(heads)), logits, values);
  const HeadFactors first = heads[0]->view();
  out.rotary = first.rotary;
  if (first.pairs() == 0) return out;
  const Index turned = 2 * first.pairs(), d = first.k.rows;
  out.q = Matrix<double>::zeros(static_cast<Index>(heads.size()) * d, logits);
  out.k = Matrix<double>::zeros(d, logits);
  for (Index j = 0; j < first.pairs(); ++j) tie_pair(heads, first.rotary->columns(j, logits), out);
  if (turned == logits) return out;
  std::vector<OwnHead> still;
  std::vector<const OwnHead*> views;
  for (const OwnHead* head : heads)
    still.push_back({copy_of<double>(head->q.view().block(0, turned, d, logits - turned)),
                     copy_of<double>(head->k.view().block(0, turned, d, logits - turned)),
                     copy_of(head->v),
                     copy_of(head->o),
                     {}});
  for (const OwnHead& head : still) views.push_back(&head);
  const OwnHead rest = cut_to(balanced(diagonal(views)), logits - turned, values);
  copy_rows(rest.q.view(), out.q.view().block(0, turned, out.q.rows(), rest.q.cols()));
  copy_rows(rest.k.view(), out.k.view().block(0, turned, d, rest.k.cols()));
  return out;
}

Matrix<double> orthonormal_span(MatrixView<const double> a) {
  Svd all = svd(a);
  return all.ok ? std::move(all.left) : copy_of<double>(a);
}

// The share of one span that lies in another: |A^T B|^2 / columns.
double overlap(const Matrix<double>& a, const Matrix<double>& b) {
  const double columns = static_cast<double>(std::max<Index>(1, std::max(a.cols(), b.cols())));
  return squared_norm(product(Trans::yes, Trans::no, a.view(), b.view())) / columns;
}

// Groups of equally many heads: the pairs that are most alike meet first, as long as a group has room.
std::vector<std::vector<std::size_t>> alike_heads(const std::vector<OwnHead>& heads, std::size_t size) {
  std::vector<Matrix<double>> keys, values;
  for (const OwnHead& head : heads) {
    keys.push_back(orthonormal_span(head.k.view()));
    values.push_back(orthonormal_span(head.v.view()));
  }
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < heads.size(); ++i) groups.push_back({i});
  const auto likeness = [&](const auto& a, const auto& b) {
    double sum = 0;
    for (const std::size_t i : a)
      for (const std::size_t j : b) sum += overlap(keys[i], keys[j]) + overlap(values[i], values[j]);
    return sum / static_cast<double>(a.size() * b.size());
  };
  while (groups.size() * size > heads.size()) {
    double best = -1;
    std::size_t one = 0, other = 0;
    for (std::size_t i = 0; i < groups.size(); ++i)
      for (std::size_t j = i + 1; j < groups.size(); ++j) {
        if (groups[i].size() + groups[j].size() > size) continue;
        const double alike = likeness(groups[i], groups[j]);
        if (alike > best) best = alike, one = i, other = j;
      }
    if (best < 0) return {};  // sizes that do not add up: the heads do not lie in so many groups
    groups[one].insert(groups[one].end(), groups[other].begin(), groups[other].end());
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(other));
  }
  return groups;
}

}  // namespace

std::vector<OwnHead> tall_heads(const Factors& factors) {
  const Index shared = factors.ranks.shared, d = factors.dim(), e = factors.outputs();
  std::vector<OwnHead> out;
  for (Index i = 0; i < factors.heads(); ++i) {
    const HeadFactors head = head_of(factors, i);
    if (factors.ranks.leads(i)) {
      const Index count = std::min(shared, factors.heads() - i);
      out.push_back({Matrix<double>(count * d, head.q.cols), copy_of<double>(head.k), copy_of<double>(head.v),
                     Matrix<double>(head.o.rows, count * e), factors.ranks.rotary});
    }
    copy_rows(head.q, out.back().q.view().block(i % shared * d, 0, d, head.q.cols));
    copy_rows(head.o, out.back().o.view().block(0, i % shared * e, head.o.rows, e));
  }
  return out;
}

Factors from_tall(const std::vector<OwnHead>& tall, const backend::HeadRanks& like) {
  std::vector<OwnHead> heads;
  for (const OwnHead& group : tall) {
    const Index d = group.k.rows(), count = group.q.rows() / d, e = group.o.cols() / count;
    for (Index i = 0; i < count; ++i)
      heads.push_back({copy_of<double>(group.q.view().block(i * d, 0, d, group.q.cols())), copy_of(group.k),
                       copy_of(group.v), copy_of<double>(group.o.view().block(0, i * e, group.o.rows(), e)),
                       group.rotary});
  }
  return assemble(heads, like);
}

Factors tied(const Factors& factors, Index groups) {
  const Index count = layer_heads(factors);
  std::vector<OwnHead> heads, tall;
  Index logits = 0, values = 0;
  for (Index i = 0; i < count; ++i) {
    heads.push_back(own_head(factors, i));
    logits = std::max(logits, heads.back().q.cols());
    values = std::max(values, heads.back().v.cols());
  }
  const auto alike = alike_heads(heads, static_cast<std::size_t>(count / groups));
  const bool even = std::all_of(heads.begin(), heads.end(), [&](const OwnHead& head) {
    return head.q.cols() == logits && head.v.cols() == values;
  });
  if (alike.empty() || !even) return copy_of(factors);
  for (const std::vector<std::size_t>& group : alike) {
    std::vector<const OwnHead*> own;
    for (const std::size_t i : group) own.push_back(&heads[i]);
    tall.push_back(tall_of(own));
  }
  if (factors.ranks.biased) tall.push_back(own_head(factors, factors.heads() - 1));
  backend::HeadRanks like = factors.ranks;
  like.shared = count / groups;
  return from_tall(tall, like);
}

}  // namespace headlens::recovery
