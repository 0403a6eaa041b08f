"""Runs every benchmark: `make bench`, or for a quick look `make bench ARGS="--runs 1 --seconds 1"`."""

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))


@click.command()
@click.argument("benchmarks", nargs=-1, metavar="[BENCHMARK]...")
@click.option(
    "--runs", type=click.IntRange(min=1), default=5, show_default=True, help="Interleaved runs of each figure."
)
@click.option("--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="Length of a run.")
def main(benchmarks: tuple[str, ...], runs: int, seconds: float) -> None:
    """Measure, all or the benchmarks that are named, and write bench/results.json."""
    from tests.bench import (
        freshness,
        merge_cost,
        push_and_pull,
        ranked_read,
        ranking_cost,
        ranking_sim,
        read_throughput,
        redis_keys,
        results,
    )

    modules = (
        read_throughput,
        ranked_read,
        redis_keys,
        freshness,
        merge_cost,
        push_and_pull,
        ranking_cost,
        ranking_sim,
    )
    known = {module.__name__.rpartition(".")[2]: module for module in modules}
    if unknown := [name for name in benchmarks if name not in known]:
        raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(known)}")
    for name in benchmarks or known:
        benchmark = known[name]
        figures = benchmark.run(runs=runs, seconds=seconds)
        for figure in figures:
            click.echo(str(figure))
        results.write(figures)
    click.echo(f"written to {results.FILE}")


if __name__ == "__main__":
    main()
