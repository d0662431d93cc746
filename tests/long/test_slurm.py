"""examples/slurm on Debian's own Slurm: a study as an array of jobs and a fit on two ranks, through sbatch."""

import csv
import io
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HEADLENS", ROOT / "build" / "headlens"))
TIMES = {"fit-seconds", "seconds", "predicted_peak_bytes", "host", "finished"}
STUDY = """name = "queued"
command = "fit"
seeds = [1, 2]
[fixed]
dim = 4
keys = 4
test-samples = 50
[grid]
samples = [20, 40]
[variants.model]
RFA = {model = "rfa", heads = 20}
RFMLP = {model = "mlp", heads = 80}
"""
CONFIG = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort=26817
SlurmdPort=26818
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""
needed = ("slurmctld", "slurmd", "munged", "sbatch", "mpirun")
pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not all(shutil.which(name) for name in needed),
    reason="needs root, Slurm (scripts/setup slurm) and Open MPI",
)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A controller, a node and munge in a folder of their own; the environment that finds them."""
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    host = os.uname().nodename
    (folder / "slurm.conf").write_text(CONFIG.format(host=host, folder=folder, cores=os.cpu_count()))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "HEADLENS": str(BINARY)}
    log = (folder / "daemons.log").open("w")
    daemons = [
        ["munged", "-F", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
         f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"],
        ["slurmctld", "-D", "-i"],
        ["slurmd", "-D", "-N", host],
    ]  # fmt: skip
    processes = []
    try:
        for words in daemons:
            processes.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))
            time.sleep(2)
        wait_until(lambda: "idle" in text_of(["sinfo", "-h", "-o", "%t"], environment), 60, folder)
        yield environment
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=30)
        log.close()


def text_of(words, environment):
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


def wait_until(holds, seconds, folder):
    deadline = time.time() + seconds
    while time.time() < deadline:
        if holds():
            return
        time.sleep(0.5)
    logs = "".join(path.read_text(errors="replace")[-1500:] for path in sorted(folder.glob("*.log")))
    raise AssertionError(f"Slurm did not get there in {seconds} s:\n{logs}")


def submit(words, environment, folder):
    """Waits for the job; sbatch's status is that of the job."""
    done = subprocess.run(
        ["sbatch", "--wait", *words], env=environment, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )  # fmt: skip
    logs = "".join(path.read_text() for path in folder.glob("slurm-*.out"))
    assert done.returncode == 0, done.stderr + logs


def headlens(*words):
    done = subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def table(store):
    rows = csv.DictReader(io.StringIO(headlens("study", "export", store, "--format", "csv")))
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def test_a_study_as_an_array_of_jobs(slurm, tmp_path, report):
    (tmp_path / "study.toml").write_text(STUDY)
    script = ROOT / "examples" / "slurm" / "study_array.sh"
    submit(["--array=1-3", str(script), "study.toml"], slurm, tmp_path)
    parts = sorted(tmp_path.glob("part-*.db"))
    assert len(parts) == 3
    headlens("study", "merge", *parts, "-o", tmp_path / "all.db")
    headlens("study", "run", tmp_path / "study.toml", "-o", tmp_path / "one.db")
    assert table(tmp_path / "all.db") == table(tmp_path / "one.db")
    report("a study in three array jobs of Slurm merges to the table of one run")


def test_a_fit_on_two_ranks(slurm, tmp_path, report):
    headlens(
        "generate",
        "power-mean",
        "--degree",
        2,
        "--dim",
        6,
        "--keys",
        5,
        "--count",
        500,
        "-o",
        tmp_path / "d.npz",
    )
    script = ROOT / "examples" / "slurm" / "fit.sh"
    environment = {**slurm, "MPIRUN_OPTIONS": "--allow-run-as-root --oversubscribe"}
    submit(
        ["--ntasks=2", "--overcommit", str(script), "d.npz", "m.hlm", "--heads", "40", "--ridge", "1e-3"],
        environment, tmp_path,
    )  # fmt: skip
    headlens("fit", tmp_path / "d.npz", "--heads", 40, "--ridge", "1e-3", "-o", tmp_path / "one.hlm")
    errors = [headlens("evaluate", tmp_path / name, tmp_path / "d.npz") for name in ("m.hlm", "one.hlm")]
    assert errors[0] == errors[1]
    report("a fit through sbatch on two ranks has the error of one process: " + errors[0].strip())
