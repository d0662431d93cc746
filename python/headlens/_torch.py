"""A layer as a PyTorch module. Imported by AttentionLayer.to_torch alone."""

from collections.abc import Mapping

import numpy as np
import torch


def _turned(x: torch.Tensor, rotary: tuple[float, ...]) -> torch.Tensor:
    """Rows of (..., m, k, r) turned by rotary positions: base, layout (0 half, 1 interleaved), share of columns."""
    base, layout, share = rotary
    pairs = int(share * x.shape[-1] / 2 + 1e-9)
    places = torch.arange(x.shape[-2], dtype=x.dtype, device=x.device)
    turns = base ** (-torch.arange(pairs, dtype=x.dtype, device=x.device) / pairs)
    cos, sin = (places[:, None] * turns).cos(), (places[:, None] * turns).sin()
    first = slice(0, 2 * pairs, 2) if layout else slice(0, pairs)
    second = slice(1, 2 * pairs, 2) if layout else slice(pairs, 2 * pairs)
    out = x.clone()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


class TorchAttentionLayer(torch.nn.Module):
    """F(X) = sum_i softmax_rows(X Theta_i X^T + <u_i, x_b>) X W_i + c on X (..., k, d), with mask and rotary positions."""

    def __init__(self, parts: Mapping[str, np.ndarray]):
        super().__init__()
        self.causal = "causal" in parts
        self.rotary = tuple(parts["rotary"].tolist()) if "rotary" in parts else None
        for part in ("Theta", "Q", "K", "W", "query_bias", "constant"):
            given = torch.nn.Parameter(torch.from_dlpack(parts[part].copy())) if part in parts else None
            self.register_parameter(part.lower(), given)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.rotary is None:
            scores = torch.einsum("...id,mde,...je->...mij", x, self.theta, x)
        else:
            q, k = (_turned(torch.einsum("...id,mdr->...mir", x, p), self.rotary) for p in (self.q, self.k))
            scores = q @ k.transpose(-1, -2)
        if self.query_bias is not None:
            scores = scores + torch.einsum("md,...jd->...mj", self.query_bias, x).unsqueeze(-2)
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        out = torch.einsum("...mij,...jd,mde->...ie", scores.softmax(-1), x, self.w)
        return out if self.constant is None else out + self.constant
