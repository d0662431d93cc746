"""The CUDA back end of headlens: a library that headlens finds here when `backend="cuda"` is asked for."""
