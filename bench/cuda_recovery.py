"""Recovery on the CUDA back end: the whole command, from the file of examples to the layer and its certificate.

Layers of heads of rank d / m with |Theta| = 2, fed with random signs, 32 tokens per example (16 for d = 64 and 1024). PyTorch draws the
examples on the device, in float64. Further layers: files of factors (.npz: Q, K (m,d,r), V (m,d,r), O (m,r,e)).
Writes bench/results/cuda_recovery.json. `bench/cuda_recovery.py [SEEDS [FILE.npz,EXAMPLES ..]]`, 5 seeds by default.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADLENS = next(p for p in (ROOT / "build/headlens", ROOT / "headlens") if p.exists())
SIZES = [(64, 8, 600, 16), (768, 12, 5000, 32), (1024, 16, 12000, 16)]  # d, m, examples, tokens
DEVICE = "cuda"


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator, device=DEVICE, dtype=torch.float64)


def drawn_layer(d, m, generator):
    r = d // m
    theta = normal(generator, m, d, r) @ normal(generator, m, r, d)
    theta *= 2 / theta.flatten(1).norm(dim=1)[:, None, None]
    return theta, normal(generator, m, d, r) @ normal(generator, m, r, d) / (d * r) ** 0.5


def stored_layer(path):
    q, k, v, o = (torch.tensor(np.load(path)[name], device=DEVICE).double() for name in "QKVO")
    return q @ k.transpose(1, 2), v @ o


def outputs(theta, w, x):
    return sum(torch.softmax(x @ t @ x.transpose(1, 2), -1) @ (x @ v) for t, v in zip(theta, w, strict=True))


def save_examples(path, theta, w, count, tokens, generator):
    signs = torch.randint(0, 2, (count, tokens, theta.shape[1]), generator=generator, device=DEVICE)
    x = (2 * signs - 1).double()
    y = torch.cat([outputs(theta, w, part) for part in x.split(500)])
    np.savez(path, X=x.float().cpu().numpy(), Y=y.cpu().numpy())


def worst_error(path, theta, w):
    """The largest relative error of a Theta or a W, each true head against the nearest one that was found."""
    found_theta, found_w = stored_layer(path)
    if found_theta.shape != theta.shape:
        return float("inf")
    worst = 0.0
    for t, v in zip(theta, w, strict=True):
        distances = (found_theta - t).flatten(1).norm(dim=1) / t.norm()
        nearest = int(distances.argmin())
        worst = max(worst, float(distances[nearest]), float((found_w[nearest] - v).norm() / v.norm()))
    return worst


def run(name, theta, w, count, tokens, seed, folder):
    examples, layer = str(folder / "examples.npz"), str(folder / "layer.npz")
    generator = torch.Generator(device=DEVICE).manual_seed(1000 + seed)
    save_examples(examples, theta, w, count, tokens, generator)
    torch.cuda.empty_cache()
    words = [
        HEADLENS,
        "recover",
        examples,
        "--backend",
        "cuda",
        "--heads",
        str(len(theta)),
        "--seed",
        str(seed),
    ]
    start = time.perf_counter()
    done = subprocess.run(
        [*map(str, words), "--form", "factors", "--json", "-o", layer], capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if not done.stdout:
        sys.exit(done.stderr)
    certificate = json.loads(done.stdout)
    recovered = certificate["status"] == "recovered"
    found = {
        "layer": name,
        "examples": count,
        "tokens": tokens,
        "seed": seed,
        "status": certificate["status"],
        "seconds": seconds,
        "error": worst_error(layer, theta, w) if recovered else None,
        "phases": certificate["phases"],
        "steps": certificate["steps"],
        "inner": certificate["inner_steps"],
    }
    phases = ", ".join(f"{phase} {took:.2f}" for phase, took in found["phases"].items())
    error = f"{found['error']:.1e}" if recovered else "-"
    print(
        f"{name}, seed {seed}: {found['status']}, {seconds:.2f} s, error {error} ({found['inner']} products; {phases})",
        flush=True,
    )
    return found


def main():
    seeds = range(1, 1 + int(sys.argv[1]) if len(sys.argv) > 1 else 6)
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for word in sys.argv[2:]:
            path, count = word.split(",")
            theta, w = stored_layer(path)
            for seed in seeds:
                results.append(run(pathlib.Path(path).stem, theta, w, int(count), 32, seed, folder))
        for d, m, count, tokens in SIZES:
            for seed in seeds:
                theta, w = drawn_layer(d, m, torch.Generator(device=DEVICE).manual_seed(seed))
                results.append(run(f"d = {d}, {m} heads", theta, w, count, tokens, seed, folder))
    path = ROOT / "bench/results/cuda_recovery.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
