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

# Recovery from what the module says about random tokens.
with torch.no_grad():
    x = torch.randn(80, 4, 8, dtype=torch.float64)
    recovery = headlens.recover(x, module(x, x, x, need_weights=False)[0], heads=2)
assert headlens.compare(recovery.layer, layer).worst_error < 1e-8
print("fine")
