"""A layer as a PyTorch module. Imported by AttentionLayer.to_torch alone."""

from typing import Any

import torch


class TorchAttentionLayer(torch.nn.Module):
    """F(X) = sum_i softmax_rows(X Theta_i X^T) X W_i, with parameters theta (m, d, d) and w (m, d, e)."""

    def __init__(self, theta: Any, w: Any):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.from_dlpack(theta.copy()))
        self.w = torch.nn.Parameter(torch.from_dlpack(w.copy()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("...id,mde,...je->...mij", x, self.theta, x)
        return torch.einsum("...mij,...jd,mde->...ie", scores.softmax(-1), x, self.w)
