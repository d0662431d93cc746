"""Tensors of PyTorch in, layers of PyTorch in and out. Run as a program by test_guests.py."""

import headlens
import numpy as np
import torch

torch.manual_seed(0)

# Sets, with and without gradients, in all precisions; never a copy of what lies in order.
X, y = torch.randn(30, 5, 3, dtype=torch.float64), torch.randn(30, dtype=torch.float64)
fit = headlens.RandomFeatureAttentionRegressor(heads=10, ridge=1e-3, random_state=0).fit
expected = fit(np.array(X.tolist()), np.array(y.tolist())).predict(np.array(X.tolist()))
assert (fit(X, y).predict(X) == expected).all()
assert (fit(X.requires_grad_(), y).predict(X.transpose(0, 1).contiguous().transpose(0, 1)) == expected).all()
X = X.detach()
assert fit(X.float(), y).predict(X.float()).dtype == np.float32
assert (fit(list(X), y).predict(X) == expected).all()
half = X.bfloat16()
assert (fit(half, y).predict(half) == fit(half.float(), y).predict(half.float())).all()

# nn.MultiheadAttention without biases is a layer.
module = torch.nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
layer = headlens.AttentionLayer.from_torch(module)
tokens = torch.randn(6, 4, 8, dtype=torch.float64)
with torch.no_grad():
    ours, theirs = layer(tokens), np.array(module(tokens, tokens, tokens, need_weights=False)[0].tolist())
assert abs(ours - theirs).max() < 1e-12, abs(ours - theirs).max()

# Hugging Face's names, in single precision.
state = module.state_dict()
q, k, v = state["in_proj_weight"].chunk(3)
names = {"q_proj": q, "k_proj": k, "v_proj": v, "out_proj": state["out_proj.weight"]}
named = {f"decoder.layers.3.self_attn.{n}.weight": t.float() for n, t in names.items()}
again = headlens.AttentionLayer.from_weights(named, heads=2, prefix="decoder.layers.3.self_attn")
assert headlens.compare(again, layer).worst_error < 1e-6

# And back: the module computes the layer, has gradients, and keeps its parameters.
back = layer.to_torch()
out = back(tokens)
assert abs(np.array(out.tolist()) - ours).max() < 1e-12
out.square().sum().backward()
assert back.theta.grad.abs().max() > 0 and set(back.state_dict()) == {"theta", "w"}

# Masks, biases and positions: the module is the layer.
for options in ({"mask": "causal", "bias": True}, {"rotary": "base=100,layout=half", "mask": "causal"},
                {"rotary": "base=100,layout=interleaved,share=0.5", "bias": True}):  # fmt: skip
    variant = headlens.AttentionLayer.random(heads=2, dim=8, seed=3, **options)
    out = variant.to_torch()(tokens)
    assert abs(np.array(out.tolist()) - variant(tokens)).max() < 1e-12, options
    out.square().sum().backward()

# A module with biases: its layer from examples, and the layer written into another module of single precision.
biased = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
with torch.no_grad():
    for name, value in biased.named_parameters():
        value.copy_(torch.randn_like(value) * (0.5 if "bias" in name else 0.6))
    x, fresh = torch.randn(160, 5, 8, dtype=torch.float64), torch.randn(1000, 5, 8)
    recovery = headlens.recover(x, biased(x, x, x, need_weights=False)[0], heads=2, bias=True)
    single = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    single.load_state_dict(recovery.layer.state_dict(single))
    ours, theirs = (m(fresh, fresh, fresh, need_weights=False)[0] for m in (single, biased.float()))
assert recovery.status == "recovered" and ours.dtype == torch.float32
assert (ours - theirs).abs().max() < 1e-6 * theirs.abs().max(), (ours - theirs).abs().max()
known = headlens.AttentionLayer.from_torch(biased, bias=True)
assert headlens.compare(recovery.layer, known).worst_error < 1e-6  # float32 weights by now

# Modules and state dicts are taken alike by match, check and refit.
assert headlens.match(single, biased).verdict == "same"
assert headlens.match(single.state_dict(), known, heads=2).verdict == "same"
with torch.no_grad():
    x, labels = fresh[:50], biased(fresh[:50], fresh[:50], fresh[:50], need_weights=False)[0]
assert headlens.check(single, x, labels).fits and headlens.check(single.state_dict(), x, labels, heads=2).fits
small = headlens.refit(single, x, heads=1, steps=20)
assert small.state_dict(single)["in_proj_weight"].dtype == torch.float32

# Recovery from what the module says about random tokens.
with torch.no_grad():
    x = torch.randn(80, 4, 8, dtype=torch.float64)
    recovery = headlens.recover(x, module(x, x, x, need_weights=False)[0], heads=2)
assert headlens.compare(recovery.layer, layer).worst_error < 1e-8
print("fine")
