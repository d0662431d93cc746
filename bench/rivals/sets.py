"""Deep Sets and a Set Transformer in PyTorch, as somebody would train them in a minute. Answers lines of JSON.

A question names an .npz file with the training sets (`query`, `keys`, `offsets`, `y`), the sets that are asked about (`fresh_query`,
`fresh_keys`, `fresh_offsets`), and the net. Predictions go to `out`; the answer has the processor seconds. Inside the training sets
everything is chosen: with a fifth of them held out, the rate (1e-3 or 3e-3) and the number of steps (at most BUDGET, looked at after
every 25); then a net is trained on all of them with both. Adam with weight decay 1e-4, batches of 32 sets, nets of width 64. Every key
gets the query of its set beside it, where there is one. Labels are integers; other targets are regressed on.
"""

import json
import sys
import time

import numpy as np
import torch
from torch import nn

WIDTH, HEADS, BATCH, BUDGET, LOOK = 64, 4, 32, 500, 25


class DeepSets(nn.Module):
    """Zaheer et al. 2017: a network of every key, its mean, maximum and logarithm of the size, a network of these."""

    def __init__(self, d, q):
        super().__init__()
        self.key = nn.Sequential(nn.Linear(d, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.set = nn.Sequential(nn.Linear(2 * WIDTH + 1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, q))

    def forward(self, x, there):
        each = self.key(x) * there[..., None]
        size = there.sum(1, keepdim=True)
        return self.set(torch.cat([each.sum(1) / size, each.max(1).values, size.log()], 1))


class Block(nn.Module):
    """Multi-head attention of a on b, with residuals and a network per row (Lee et al. 2019: MAB)."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.row = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, a, b, there):
        def split(t):
            return t.view(t.shape[0], t.shape[1], HEADS, -1).transpose(1, 2)

        scores = split(self.q(a)) @ split(self.k(b)).transpose(2, 3) / (WIDTH / HEADS) ** 0.5
        weights = scores.masked_fill(there[:, None, None, :] == 0, -1e9).softmax(-1)
        a = self.first(a + self.o((weights @ split(self.v(b))).transpose(1, 2).reshape(a.shape)))
        return self.second(a + self.row(a))


class SetTransformer(nn.Module):
    """Lee et al. 2019: two blocks of self-attention, and one learned query that attends to what they leave."""

    def __init__(self, d, q):
        super().__init__()
        self.key, self.blocks = nn.Linear(d, WIDTH), nn.ModuleList(Block() for _ in range(3))
        self.seed, self.out = nn.Parameter(torch.randn(1, 1, WIDTH) / WIDTH**0.5), nn.Linear(WIDTH + 1, q)

    def forward(self, x, there):
        x = self.key(x)
        for block in self.blocks[:2]:
            x = block(x, x, there)
        pooled = self.blocks[2](self.seed.expand(len(x), 1, WIDTH), x, there)[:, 0]
        return self.out(torch.cat([pooled, there.sum(1, keepdim=True).log()], 1))


NETS = {"deep sets": DeepSets, "set transformer": SetTransformer}


def padded(query, keys, offsets, with_query):
    """(n, largest size, d) and which of these rows are keys."""
    sizes = np.diff(offsets)
    tokens = np.concatenate([keys, np.repeat(query, sizes, 0)], 1) if with_query else keys
    there = (np.arange(sizes.max()) < sizes[:, None]).astype(np.float32)
    out = np.zeros((*there.shape, tokens.shape[1]), np.float32)
    out[there > 0] = tokens
    return torch.from_numpy(out), torch.from_numpy(there)


def trained(net, x, there, y, loss, rate, steps, look=None):
    """`steps` steps of Adam; `look` is called with the number of steps after every LOOK."""
    optimiser = torch.optim.Adam(net.parameters(), lr=rate, weight_decay=1e-4)
    order = torch.empty(0, dtype=torch.long)
    for step in range(1, steps + 1):
        if len(order) == 0:
            order = torch.randperm(len(x))
        batch, order = order[:BATCH], order[BATCH:]
        longest = int(there[batch].sum(1).max())
        error = loss(net(x[batch, :longest], there[batch, :longest]), y[batch])
        optimiser.zero_grad(set_to_none=True)
        error.backward()
        optimiser.step()
        if look and step % LOOK == 0:
            look(step)
    return net


def scores(net, x, there):
    with torch.no_grad():
        return torch.cat([net(a, b) for a, b in zip(x.split(256), there.split(256))])


def chosen(make, x, there, y, loss):
    """The rate and the number of steps that do best on a fifth of the sets."""
    order = torch.randperm(len(x))
    held, rest = order[: len(x) // 5], order[len(x) // 5 :]
    found = []
    for rate in (1e-3, 3e-3):
        net = make()

        def look(steps, net=net, rate=rate):
            found.append((loss(scores(net, x[held], there[held]), y[held]).item(), rate, steps))

        trained(net, x[rest], there[rest], y[rest], loss, rate, BUDGET, look)
    return min(found)[1:]


def answer(question):
    start = time.process_time()
    data = np.load(question["data"])
    with_query = np.ptp(data["query"], axis=0).max() > 0
    mean, width = data["keys"].mean(0), data["keys"].std(0)
    width[width == 0] = 1
    x, fresh = (
        padded(*((data[part + "query"] - mean) / width, (data[part + "keys"] - mean) / width), data[part + "offsets"], with_query)
        for part in ("", "fresh_")
    )  # fmt: skip
    y, labels = data["y"], data["y"].dtype.kind in "iu"
    if labels:
        classes, codes = np.unique(y, return_inverse=True)
        target, q, loss = torch.from_numpy(codes), len(classes), nn.functional.cross_entropy
    else:
        target = torch.from_numpy(((y - y.mean()) / y.std()).astype(np.float32))[:, None]
        q, loss = 1, nn.functional.mse_loss
    torch.manual_seed(0)
    make = lambda: NETS[question["net"]](x[0].shape[2], q)  # noqa: E731
    rate, steps = chosen(make, *x, target, loss)
    said = scores(trained(make(), *x, target, loss, rate, steps), *fresh).numpy()
    np.save(question["out"], classes[said.argmax(1)] if labels else said[:, 0] * y.std() + y.mean())
    return {"processor_seconds": time.process_time() - start, "rate": rate, "steps": steps}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
