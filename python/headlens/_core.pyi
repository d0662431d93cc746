# The extension, as the package uses it. tests/python/test_package.py holds it against the compiled module.
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numpy import ndarray

__version__: str
INFINITE_HEADS: int
OPTIONS: dict[str, dict[str, dict[str, Any]]]

class Settings:
    threads: int
    max_memory_bytes: int
    backend: str
    log: Callable[[str], Any] | None
    progress: Callable[[str, float, float], Any] | None

def rename_parameters(names: dict[str, str]) -> dict[str, str]: ...
def spell(parameter: str) -> str: ...
def parse_bytes(text: str) -> int: ...
def blas_core_repair() -> str: ...
def info(settings: Settings) -> dict[str, Any]: ...

class FeatureOptions:
    model: str
    heads: int
    bias_scale: float | None
    weight_scale: float | None
    score: str
    positions: str
    precision: str
    seed: int
    mean: ndarray | None
    head_rank: int | None
    @property
    def infinite(self) -> bool: ...
    def validate(self) -> None: ...

class FitOptions:
    features: FeatureOptions
    loss: str
    ridge: float | None
    norm_ball: tuple[float, float] | None
    huber_delta: float
    intercept: bool
    solver: str
    centres: int | None
    block_sets: int
    def validate(self) -> None: ...

class KernelOptions:
    features: FeatureOptions
    exact: bool

class TaskOptions:
    task: str
    dim: int
    min_keys: int
    max_keys: int
    count: int
    degree: int
    pure: bool
    matrix: str
    weight: float
    noise: float
    seed: int
    target_seed: int
    precision: str

class TheoryOptions:
    task: TaskOptions
    model: str
    samples: Sequence[int]
    heads: int
    error: float | None
    bias_scale: float | None

class SculptOptions:
    sculpt_form: str
    span_form: str
    polish: bool

class RecoverOptions:
    method: str
    sculpt: SculptOptions
    heads: int | None
    max_heads: int
    rank: str
    variant: str
    mask: str
    bias: bool
    rotary: str
    kv_groups: int | None
    starts: int
    start: str
    steps: int
    best_fit: bool
    seed: int
    time_limit: float | None

class TeacherOptions:
    heads: int
    dim: int
    outputs: int
    scale: float
    rank: int
    mask: str
    bias: bool
    rotary: str
    seed: int

class ExampleOptions:
    count: int
    tokens: int
    inputs: str
    noise: float
    padding: bool
    seed: int

class HardExampleOptions(ExampleOptions):
    flips: float

class HardOptions:
    kind: str
    dim: int
    size: int
    weight: int
    modulus: int
    levels: int
    sharpness: float
    seed: int

class FourierOptions:
    degree: int
    samples: int
    seed: int

class InspectOptions:
    tokens: int
    samples: int
    seed: int

class WeightsOptions:
    heads: int
    format: str
    prefix: str
    layer: int | None
    restrict: int

class CheckOptions:
    tolerance: float

class RefitOptions:
    heads: int | None
    rank: int | None
    kv_groups: int | None
    mask: str
    steps: int
    time_limit: float | None
    seed: int

class RefitInputs:
    inputs: str
    count: int
    length: int

class RunOptions:
    jobs: int
    shard: str
    retry_failed: bool
    command_line: str

class DeviceArray:
    @property
    def dtype(self) -> str: ...

def check_cuda_device(number: int, name: str) -> None: ...
def cuda_array(capsule: object, name: str) -> DeviceArray: ...

class Sets:
    @staticmethod
    def from_arrays(query: ndarray | DeviceArray, keys: ndarray | DeviceArray, name: str) -> Sets: ...
    @staticmethod
    def from_tokens(tokens: ndarray | DeviceArray, name: str) -> Sets: ...
    @staticmethod
    def from_ragged(
        query: ndarray | DeviceArray, keys: ndarray | DeviceArray, offsets: Sequence[int], name: str
    ) -> Sets: ...
    @staticmethod
    def from_sequence(tokens: ndarray | DeviceArray, name: str) -> Sets: ...
    @property
    def count(self) -> int: ...
    @property
    def dim(self) -> int: ...

def generate(
    options: TaskOptions, settings: Settings
) -> tuple[ndarray, ndarray, ndarray | None, ndarray]: ...
def attention_kernel(
    a: Sets, b: Sets | None, options: KernelOptions, settings: Settings
) -> tuple[ndarray, str, float | None]: ...

class Model:
    report: dict[str, str]
    def predict(self, sets: Sets, settings: Settings) -> ndarray: ...
    def predict_scores(self, sets: Sets, settings: Settings) -> ndarray: ...
    def features(self, sets: Sets, settings: Settings) -> ndarray: ...
    def save(self, path: Path) -> None: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...

def fit(sets: Sets, y: ndarray, options: FitOptions, settings: Settings) -> tuple[Model, dict[str, Any]]: ...
def load_model(path: Path, settings: Settings) -> Model: ...

class AutomaticModel:
    dim: int
    sequence: bool
    classes: list[int]
    slope: float
    seed: int
    notes: dict[str, str]
    def predict(self, sets: Sets, settings: Settings) -> ndarray: ...
    def predict_scores(self, sets: Sets, settings: Settings) -> ndarray: ...
    def predict_deviation(self, sets: Sets, settings: Settings) -> ndarray: ...
    def features(self, sets: Sets, settings: Settings) -> ndarray: ...
    def interval_factors(self, coverage: float) -> list[float]: ...
    def report(self) -> dict[str, Any]: ...
    def save(self, path: Path) -> None: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...

def fit_automatic(
    sets: Sets, y: ndarray, seed: int, settings: Settings
) -> tuple[AutomaticModel, dict[str, Any]]: ...
def is_automatic_model(path: Path) -> bool: ...
def load_automatic_model(path: Path, settings: Settings) -> AutomaticModel: ...

class AttentionLayer:
    @property
    def theta(self) -> ndarray | None: ...
    @property
    def w(self) -> ndarray: ...
    @property
    def query_bias(self) -> ndarray | None: ...
    @property
    def constant(self) -> ndarray | None: ...
    @property
    def q(self) -> ndarray | None: ...
    @property
    def k(self) -> ndarray | None: ...
    @property
    def mask(self) -> str: ...
    @property
    def rotary(self) -> str: ...
    @property
    def kv_groups(self) -> int: ...
    def forward(self, x: ndarray, lengths: ndarray | None, settings: Settings) -> ndarray: ...
    def examples(self, options: ExampleOptions, settings: Settings) -> tuple[ndarray, ...]: ...
    def inspect(self, options: InspectOptions, settings: Settings) -> dict[str, Any]: ...
    def tails(self, options: InspectOptions, settings: Settings) -> list[dict[str, Any] | None]: ...
    def canonical(self) -> AttentionLayer: ...
    def restrict(self, dim: int) -> AttentionLayer: ...
    def save(self, path: Path) -> None: ...

def make_layer(theta: ndarray, w: ndarray) -> AttentionLayer: ...
def make_variant(arrays: dict[str, ndarray], mask: str, rotary: str, kv_groups: int) -> AttentionLayer: ...
def draw_teacher(options: TeacherOptions) -> AttentionLayer: ...
def load_layer(path: Path, settings: Settings) -> AttentionLayer: ...
def layer_from_weights(
    tensors: dict[str, ndarray], options: WeightsOptions, name: str, settings: Settings
) -> AttentionLayer: ...
def load_weights(path: Path, options: WeightsOptions, settings: Settings) -> AttentionLayer: ...
def factors_from_weights(
    tensors: dict[str, ndarray],
    options: WeightsOptions,
    name: str,
    rotary: str | None,
    bias: bool,
    settings: Settings,
) -> dict[str, ndarray]: ...
def export_layer(
    layer: dict[str, ndarray], like: dict[str, ndarray], weights: WeightsOptions, settings: Settings
) -> dict[str, ndarray]: ...
def compare_layers(
    a: AttentionLayer, b: AttentionLayer, x: ndarray | None, lengths: ndarray | None, settings: Settings
) -> dict[str, Any]: ...
def load_tensors(path: Path, settings: Settings) -> dict[str, ndarray]: ...
def match(
    a: dict[str, ndarray],
    weights_a: WeightsOptions,
    b: dict[str, ndarray],
    weights_b: WeightsOptions,
    all_layers: bool,
    across: bool,
    rotary: str | None,
    report: Path | None,
    settings: Settings,
) -> tuple[str, str]: ...
def check(
    tensors: dict[str, ndarray],
    weights: WeightsOptions,
    x: ndarray,
    y: ndarray,
    lengths: ndarray | None,
    rotary: str | None,
    options: CheckOptions,
    settings: Settings,
) -> tuple[str, str]: ...

class Refit:
    @property
    def json(self) -> str: ...
    @property
    def words(self) -> str: ...
    @property
    def tensors(self) -> dict[str, ndarray]: ...

def refit_layer(
    tensors: dict[str, ndarray],
    weights: WeightsOptions,
    x: ndarray | None,
    lengths: ndarray | None,
    rotary: str | None,
    options: RefitOptions,
    inputs: RefitInputs,
    report: Path | None,
    settings: Settings,
) -> Refit: ...
def refit_examples(
    x: ndarray,
    y: ndarray,
    lengths: ndarray | None,
    options: RefitOptions,
    report: Path | None,
    settings: Settings,
) -> Refit: ...
def export_refit(
    refit: Refit, like: dict[str, ndarray], weights: WeightsOptions, settings: Settings
) -> dict[str, ndarray]: ...

class HiddenLabel:
    weights: Sequence[int]
    steps: Sequence[float]
    at_rest: float
    sharpness: float
    tolerance: float
    @property
    def sq_dimension(self) -> float | None: ...
    def evaluate(self, x: ndarray) -> ndarray: ...

def draw_hard_layer(options: HardOptions) -> tuple[AttentionLayer, HiddenLabel]: ...
def draw_hard_examples(
    layer: AttentionLayer, label: HiddenLabel, options: HardExampleOptions, settings: Settings
) -> tuple[ndarray, ndarray]: ...
def save_hard_layer(path: Path, layer: AttentionLayer, label: HiddenLabel) -> None: ...
def load_label(path: Path, settings: Settings) -> HiddenLabel | None: ...
def fourier(
    layer: AttentionLayer, options: FourierOptions, hard: bool, settings: Settings
) -> dict[str, Any]: ...
def recover(
    x: ndarray,
    y: ndarray,
    lengths: ndarray | None,
    options: RecoverOptions,
    report: Path | None,
    settings: Settings,
) -> tuple[AttentionLayer | None, str, ndarray | None, AttentionLayer | None, str, str]: ...
def theory(options: TheoryOptions, settings: Settings) -> dict[str, Any]: ...

class Study:
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def source(self) -> str: ...
    def run(self, store: Path, options: RunOptions, settings: Settings) -> dict[str, Any]: ...
    def tally(self, store: Path) -> dict[str, int]: ...
    def table(self, store: Path, format: str) -> str: ...
    def report(self, store: Path, folder: Path, settings: Settings) -> dict[str, Any]: ...

def merge_studies(stores: list[Path], merged: Path, command_line: str) -> dict[str, int]: ...
def read_study(path: Path, overrides: list[str]) -> Study: ...
