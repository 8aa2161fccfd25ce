"""Run seeds: `python -m tests.simulation --seed N -v` replays one, `--seeds 20000 --jobs 2` looks for trouble."""

import argparse
import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.history import line
from tests.simulation.planted import PLANTED
from tests.simulation.simulation import Result, simulate

_CHUNK = 20
_LINES = 60


def main() -> int:
    """Run, report, and return 1 when an invariant was violated."""
    options = _parse()
    if options.seed is not None:
        return _one(options)
    return _many(options)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed")
    parser.add_argument("--seeds", type=int, default=2000, help="run so many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument("--planted", choices=sorted(PLANTED), help="with this planted bug")
    parser.add_argument("--lines", type=int, default=_LINES, help="how much history to show of a failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the whole history")
    return parser.parse_args()


def _one(options: argparse.Namespace) -> int:
    result = simulate(
        options.seed,
        planted=options.planted,
        listener=(lambda note: print(line(note))) if options.verbose else None,
    )
    if result.violation is None:
        print(f"seed {result.seed}: all invariants hold ({result.steps} steps, {result.actions} actions)")
        return 0
    _tell(result, 0 if options.verbose else options.lines, options.planted)
    return 1


def _tell(result: Result, lines: int, planted: str | None) -> None:
    for note in result.history[-lines:] if lines else ():
        print(line(note))
    print(f"seed {result.seed}: VIOLATED {result.violation}")
    with_bug = f" --planted {planted}" if planted else ""
    print(f"replay: .venv/bin/python -m tests.simulation --seed {result.seed}{with_bug} -v")


def _chunk(first: int, count: int, options: argparse.Namespace) -> tuple[list[Result], int, int, int]:
    gc.collect()
    gc.freeze()  # what is there by now will stay
    gc.disable()  # and a simulation is garbage as a whole, when it is over
    failed: list[Result] = []
    steps = actions = 0
    for seed in range(first, first + count):
        result = simulate(seed, planted=options.planted)
        steps += result.steps
        actions += result.actions
        if result.violation is not None:
            failed.append(result)
            if not options.keep_going:
                break
        gc.collect()
    return failed, count, steps, actions


def _chunks(first: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, _CHUNK):
        yield start, min(_CHUNK, first + count - start)


@contextlib.contextmanager
def _given_up(pool: ProcessPoolExecutor) -> Iterator[None]:
    """Begin nothing more when a bug of the simulation itself, or a person, ends it."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _many(options: argparse.Namespace) -> int:
    began = time.monotonic()
    done = steps = actions = 0
    failed: list[Result] = []
    with ProcessPoolExecutor(options.jobs) as pool, _given_up(pool):
        futures = [pool.submit(_chunk, *chunk, options) for chunk in _chunks(options.first, options.seeds)]
        for future in as_completed(futures):
            bad, count, more_steps, more_actions = future.result()
            done, steps, actions = done + count, steps + more_steps, actions + more_actions
            for result in bad:
                failed.append(result)
                print(f"\nseed {result.seed}: VIOLATED {result.violation}")
            rate = done / (time.monotonic() - began)
            print(f"\r{done} of {options.seeds} seeds, {rate:.1f}/s, {len(failed)} violated", end="", flush=True)
            if failed and not options.keep_going:
                pool.shutdown(cancel_futures=True)
                break
    print(f"\n{done} seeds, {actions} actions, {steps} steps in {time.monotonic() - began:.0f} s")
    if failed:
        _tell(min(failed, key=lambda result: result.seed), options.lines, options.planted)
    return 1 if failed else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])  # noqa: S606 - ourselves
    sys.exit(main())
