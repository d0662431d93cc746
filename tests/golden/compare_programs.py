"""The fixed list of commands, for refactorings that must not change a byte.

  compare_programs.py record BINARY                 digests of everything the commands write, in build/golden
  compare_programs.py compare BINARY MANIFEST       the same commands again, against recorded digests
  compare_programs.py compare OLD NEW               two programs; says which file of which command differs, and by how much

Every comparison runs the list with 1 and with 3 threads (--threads 1,3). What may differ is named in contents.py. The bytes depend
on the processor and on the kernels of the BLAS, so a manifest is for the machine that wrote it and is kept out of the
repository. Exits with 1 if anything differs.
"""

import argparse
import hashlib
import json
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from contents import contents, neutral_text
from inputs import write_inputs

HERE = Path(__file__).resolve().parent
MANIFESTS = HERE.parents[1] / "build" / "golden"
WITHOUT_THREADS = ("study status", "study export")


def commands():
    """(words of the command, its exit status, words that it must print) for every line of the list."""
    for line in (HERE / "commands.txt").read_text().splitlines():
        command, _, remark = line.partition("#")
        if command.strip():
            status = re.search(r"exits with (\d)", remark)
            says = re.search(r"says (.*)", remark)
            yield command.strip(), int(status.group(1)) if status else 0, says.group(1) if says else ""


def files_of(folder):
    return {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in folder.rglob("*") if p.is_file()}


def run_command(binary, command, status, says, folder, threads):
    """{name of a file, and of a part of it: its contents}, with standard output and standard error."""
    before = files_of(folder)
    more = [] if command.startswith(WITHOUT_THREADS) else ["--threads", str(threads)]
    done = subprocess.run(
        [binary, *shlex.split(command), *more], cwd=folder, capture_output=True, text=True, timeout=300
    )
    if done.returncode != status:
        raise RuntimeError(f"{command}: exit {done.returncode}, not {status}: {done.stderr[-300:]}")
    if says not in re.sub(r"\s+", " ", done.stdout + done.stderr):
        raise RuntimeError(f"{command}: does not say '{says}': {done.stdout[-300:]}")
    outputs = {"stdout": neutral_text(done.stdout), "stderr": neutral_text(done.stderr)}
    for path, stamp in sorted(files_of(folder).items()):
        if before.get(path) != stamp:
            for part, content in contents(path).items():
                outputs[f"{path.relative_to(folder)}: {part}"] = content
    return outputs


def run_all(binary, threads):
    """Yields (command, outputs)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        for command, status, says in commands():
            yield command, run_command(binary, command, status, says, folder, threads)


def digest(content):
    if isinstance(content, np.ndarray):
        content = f"{content.dtype} {content.shape} ".encode() + content.tobytes()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def difference(old, new):
    """In words: how far two contents are from each other."""
    if old is None or new is None:
        return "only one has it"
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        if old.shape != new.shape or old.dtype != new.dtype:
            return f"{old.dtype} {old.shape} and {new.dtype} {new.shape}"
        gap = np.abs(old.astype(float) - new.astype(float))
        size = np.abs(old.astype(float)).max()
        return f"{np.count_nonzero(gap)} of {gap.size} entries, by up to {gap.max():.3g} (largest entry {size:.3g})"
    if isinstance(old, str) and isinstance(new, str):
        for a, b in zip(old.splitlines() + [""], new.splitlines() + [""]):
            if a != b:
                return f"'{a.strip()[:120]}' and '{b.strip()[:120]}'"
    return f"{len(old)} and {len(new)} bytes or characters"


def differences(old, new):
    """Lines about what differs between the outputs of one command; either may hold digests instead of contents."""
    for part in sorted(old.keys() | new.keys()):
        a, b = old.get(part), new.get(part)
        recorded = isinstance(a, dict)
        if a is None or b is None or (a["sha256"] if recorded else digest(a)) != digest(b):
            yield f"{part}: {'the digests differ' if recorded else difference(a, b)}"


def machine(binary):
    found = json.loads(subprocess.run([binary, "info", "--json"], capture_output=True, check=True).stdout)
    cpuinfo = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    return {
        "processor": model.group(1) if model else platform.processor(),
        **{
            name: found[name]
            for name in ("simd", "blas_library", "blas_core", "version", "commit", "compiler")
        },
    }


def record(binary):
    of = machine(binary)
    manifest = {"machine": of, "commands": {}}
    for command, outputs in run_all(binary, 1):
        manifest["commands"][command] = {part: {"sha256": digest(c)} for part, c in outputs.items()}
    MANIFESTS.mkdir(parents=True, exist_ok=True)
    path = MANIFESTS / (re.sub(r"\W+", "-", f"{of['processor']} {of['simd']} {of['blas_core']}") + ".json")
    path.write_text(json.dumps(manifest, indent=1))
    print(f"{path}: {len(manifest['commands'])} commands")


def outputs_of(source, threads):
    """Those of a program, or those that a manifest recorded."""
    if Path(source).suffix == ".json":
        return list(json.loads(Path(source).read_text())["commands"].items())
    return run_all(str(Path(source).resolve()), threads)


def compare(old, new, threads):
    if Path(new).suffix == ".json":
        old, new = new, old
    failed = 0
    for count in threads:
        start, compared = time.perf_counter(), 0
        for (command, before), (again, after) in zip(
            outputs_of(old, count), outputs_of(new, count), strict=True
        ):
            assert command == again, f"the manifest is of another list: {command}"
            found = list(differences(before, after))
            compared += len(after)
            failed += bool(found)
            if found:
                print(f"headlens {command} --threads {count}", *found, sep="\n    ")
        print(f"{count} threads: {compared} outputs compared, {time.perf_counter() - start:.0f} s")
    print(f"{failed} commands differ" if failed else "equal")
    return bool(failed)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--threads", default="1,3")
    args = parser.parse_args()
    if args.action == "record":
        record(str(Path(args.sources[0]).resolve()))
        return 0
    return compare(*args.sources, [int(t) for t in args.threads.split(",")])


if __name__ == "__main__":
    sys.exit(main())
