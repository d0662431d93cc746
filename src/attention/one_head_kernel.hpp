// The body of one_head.hpp, compiled once per instruction set. The including file defines HEADLENS_ISA,
// HEADLENS_VECTOR_BYTES (base/vectors.hpp) and HEADLENS_ROWS: with kVectors sums per row, so many rows fit
// its registers.
//
// All products are sums of scalars of one factor times rows of the other. The latter are packed: rows padded
// with zeros to whole vectors, one behind the other, transposed where the product asks for it.
#include <algorithm>

#include "attention/one_head.hpp"
#include "base/vectors.hpp"

namespace headlens::HEADLENS_ISA {
namespace {

constexpr int kRows = HEADLENS_ROWS;
constexpr int kVectors = 2;

template <class T>
Index padded(Index count) {
  return (count + kWidth<T> - 1) / kWidth<T> * kWidth<T>;
}

// A packed factor: row t at data + t * stride, stride a multiple of kWidth.
template <class T>
struct Packed {
  const T* data;
  Index stride;
  Packed from(Index row) const { return {data + row * stride, stride}; }
};

// Hands out parts of the room to work in, each whole vectors.
template <class T>
class Room {
 public:
  explicit Room(T* at) : at_(at) {}
  T* take(Index rows, Index columns) {
    T* const out = at_;
    at_ += rows * padded<T>(columns);
    return out;
  }
  Packed<T> pack(MatrixView<const T> a, Index rows) {
    T* const out = take(rows, a.cols);
    const Index stride = padded<T>(a.cols);
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < stride; j += kWidth<T>)
        store(out + i * stride + j, load_part(a.row(i) + j, a.cols - j));
    return {out, stride};
  }
  // The transpose of the first so many rows, in squares of kWidth.
  Packed<T> pack_transposed(MatrixView<const T> a, Index rows) {
    T* const out = take(padded<T>(a.cols), rows);
    const Index stride = padded<T>(rows);
    for (Index i = 0; i < rows; i += kWidth<T>)
      for (Index j = 0; j < a.cols; j += kWidth<T>) {
        Vector<T> square[kWidth<T>];
#pragma GCC unroll 16
        for (int r = 0; r < kWidth<T>; ++r)
          square[r] = i + r < rows ? load_part(a.row(i + r) + j, a.cols - j) : Vector<T>{};
        transpose<T>(square);
#pragma GCC unroll 16
        for (int r = 0; r < kWidth<T>; ++r) store(out + (j + r) * stride + i, square[r]);
      }
    return {out, stride};
  }

 private:
  T* at_;
};

// The scalars of `Rows` rows: step t of row r at data + r * row + t * step.
template <class T>
struct Scalars {
  const T* data;
  Index row, step;
};
template <class T>
Scalars<T> rows_from(MatrixView<const T> a, Index first) {
  return {a.row(first), a.stride, 1};
}
template <class T>
Scalars<T> columns_from(MatrixView<const T> a, Index step, Index first) {
  return {a.row(step) + first, 1, a.stride};
}

// out = sum_t a[., t] b[t, .] + before * out, for V vectors from column j on.
template <class T, int Rows, int V>
inline void add_vectors(Index steps, Scalars<T> a, Packed<T> b, Index j, MatrixView<T> out, T before) {
  Vector<T> acc[Rows][V] = {};
  for (Index t = 0; t < steps; ++t) {
    Vector<T> lane[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) lane[v] = load(b.data + t * b.stride + j + v * kWidth<T>);
    const T* const scalars = a.data + t * a.step;
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const T scalar = scalars[r * a.row];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) acc[r][v] += lane[v] * scalar;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      const Index at = j + v * kWidth<T>, left = out.cols - at;
      T* const to = out.row(r) + at;
      store_part(to, before == T(0) ? acc[r][v] : acc[r][v] + before * load_part<T>(to, left), left);
    }
}

// The same for all columns of out.
template <class T, int Rows>
inline void add_rows(Index steps, Scalars<T> a, Packed<T> b, MatrixView<T> out, T before = T(0)) {
  Index j = 0;
  for (; j + kWidth<T> < out.cols; j += kVectors * kWidth<T>)
    add_vectors<T, Rows, kVectors>(steps, a, b, j, out, before);
  if (j < out.cols) add_vectors<T, Rows, 1>(steps, a, b, j, out, before);
}

// body(first, number of rows as a constant), kRows at a time; the rest in the instances that fit.
template <int Rows = kRows, class Body>
inline void in_rows(Index first, Index end, Body&& body) {
  for (; first + Rows <= end; first += Rows) body(first, std::integral_constant<int, Rows>());
  if constexpr (Rows > 1)
    if (first < end) in_rows<(Rows + 1) / 2>(first, end, body);
}

template <class T>
void clear(T* from, T* end) {
  std::fill(from, end, T(0));
}
template <class T>
void clear_rows(MatrixView<T> a, Index from) {
  for (Index i = from; i < a.rows; ++i) clear(a.row(i), a.row(i) + a.cols);
}

// One row of logits in whole vectors becomes attention, zero from `seen` to the end of its last vector.
template <class T>
inline void softmax(T* row, Index seen) {
  const auto logits = [&](Index j) {
    return first_lanes(load(row + j), seen - j, -static_cast<T>(__builtin_inf()));
  };
  Vector<T> highest = logits(0), sum{};
  for (Index j = kWidth<T>; j < seen; j += kWidth<T>) {
    const Vector<T> here = logits(j);
    highest = here > highest ? here : highest;
  }
  highest = largest_of_lanes<T>(highest);
  for (Index j = 0; j < seen; j += kWidth<T>) {
    const Vector<T> weight = exponential<T>(logits(j) - highest);
    store(row + j, weight);
    sum += weight;
  }
  const Vector<T> share = T(1) / sum_of_lanes<T>(sum);
  for (Index j = 0; j < seen; j += kWidth<T>) store(row + j, load(row + j) * share);
}

// One row t of whole vectors becomes p * (t - <p, t>), zero from `seen` to its end. p is zero there.
template <class T>
inline void bend(MatrixView<const T> p, Index row, Index seen, T* t, Index end) {
  const auto weights = [&](Index j) { return load_part(p.row(row) + j, p.cols - j); };
  Vector<T> mean{};
  for (Index j = 0; j < seen; j += kWidth<T>) mean += weights(j) * load(t + j);
  mean = sum_of_lanes<T>(mean);
  Index j = 0;
  for (; j < seen; j += kWidth<T>) store(t + j, weights(j) * (load(t + j) - mean));
  if (j < end) clear(t + j, t + end);
}

// Whole vectors of a row to where there may be less room; zero beyond.
template <class T>
inline void write_row(const T* from, Index seen, MatrixView<T> to, Index row) {
  T* const out = to.row(row);
  Index j = 0;
  for (; j < seen; j += kWidth<T>) store_part(out + j, load(from + j), to.cols - j);
  if (j < to.cols) clear(out + j, out + to.cols);
}

template <class T>
Index room(Index tokens, Index columns) {
  const Index wide = padded<T>(tokens), across = padded<T>(columns);
  return 4 * wide * across + (wide + kRows) * wide;
}

template <class T>
void attend(Sight sight, const HeadImages<const T>& at, MatrixView<T> p, MatrixView<T> phi, T* work) {
  Room<T> space(work);
  const Packed<T> keys = space.pack_transposed(at.k, sight.length), values = space.pack(at.v, sight.length);
  const MatrixView<T> rows(space.take(kRows, sight.length), kRows, keys.stride);
  in_rows(0, sight.length, [&](Index first, auto count) {
    constexpr int n = decltype(count)::value;
    const Index seen = sight.of_first(first + n);
    add_rows<T, n>(at.q.cols, rows_from(at.q, first), keys, rows.block(0, 0, n, padded<T>(seen)));
    for (int r = 0; r < n; ++r) {
      const Index own = sight.of(first + r);
      softmax(rows.row(r), own);
      clear(rows.row(r) + padded<T>(own), rows.row(r) + padded<T>(seen));
      write_row(rows.row(r), own, p, first + r);
    }
    add_rows<T, n>(seen, rows_from<T>(rows, 0), values, phi.block(first, 0, n, phi.cols));
  });
  clear_rows(p, sight.length);
  clear_rows(phi, sight.length);
}

template <class T>
void derivative(Sight sight, const HeadImages<const T>& at, const HeadImages<const T>& along,
                MatrixView<const T> p, MatrixView<T> dphi, T* work) {
  Room<T> space(work);
  const Packed<T> keys = space.pack_transposed(at.k, sight.length),
                  moved_keys = space.pack_transposed(along.k, sight.length),
                  values = space.pack(at.v, sight.length), moved_values = space.pack(along.v, sight.length);
  const MatrixView<T> rows(space.take(kRows, sight.length), kRows, keys.stride);
  in_rows(0, sight.length, [&](Index first, auto count) {
    constexpr int n = decltype(count)::value;
    const Index seen = sight.of_first(first + n);
    const MatrixView<T> here = rows.block(0, 0, n, padded<T>(seen)), out = dphi.block(first, 0, n, dphi.cols);
    add_rows<T, n>(at.q.cols, rows_from(along.q, first), keys, here);
    add_rows<T, n>(at.q.cols, rows_from(at.q, first), moved_keys, here, T(1));
    for (int r = 0; r < n; ++r) bend(p, first + r, sight.of(first + r), here.row(r), here.cols);
    add_rows<T, n>(seen, rows_from<T>(rows, 0), values, out);
    add_rows<T, n>(seen, rows_from(p, first), moved_values, out, T(1));
  });
  clear_rows(dphi, sight.length);
}

template <class T>
void adjoint(Sight sight, const HeadImages<const T>& at, MatrixView<const T> p, MatrixView<const T> g,
             const HeadImages<T>& back, T before, T* work) {
  Room<T> space(work);
  const Index length = sight.length;
  const Packed<T> values = space.pack_transposed(at.v, length), keys = space.pack(at.k, length),
                  queries = space.pack(at.q, length), asked = space.pack(g, length);
  const MatrixView<T> c(space.take(length, length), length, values.stride);
  in_rows(0, length, [&](Index first, auto count) {
    constexpr int n = decltype(count)::value;
    const Index seen = sight.of_first(first + n);
    const MatrixView<T> rows = c.block(first, 0, n, padded<T>(seen));
    add_rows<T, n>(g.cols, rows_from(g, first), values, rows);
    for (int r = 0; r < n; ++r) bend(p, first + r, sight.of(first + r), rows.row(r), c.cols);
    add_rows<T, n>(seen, rows_from<T>(rows, 0), keys, back.q.block(first, 0, n, back.q.cols));
  });
  in_rows(0, length, [&](Index first, auto count) {
    constexpr int n = decltype(count)::value;
    const Index from = sight.causal ? first : 0;  // earlier tokens do not see these
    add_rows<T, n>(length - from, columns_from<T>(c, from, first), queries.from(from),
                   back.k.block(first, 0, n, back.k.cols), before);
    add_rows<T, n>(length - from, columns_from(p, from, first), asked.from(from),
                   back.v.block(first, 0, n, back.v.cols), before);
  });
  clear_rows(back.q, length);
  if (before != T(0)) return;
  clear_rows(back.k, length);
  clear_rows(back.v, length);
}

}  // namespace

template <class T>
OneHead<T> head_functions() {
  return {&room<T>, &attend<T>, &derivative<T>, &adjoint<T>};
}
template OneHead<float> head_functions();
template OneHead<double> head_functions();

}  // namespace headlens::HEADLENS_ISA
