"""Runs every benchmark: `make bench`, or for a quick look `make bench ARGS="--runs 1 --seconds 1"`."""

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))


@click.command()
@click.option(
    "--runs", type=click.IntRange(min=1), default=5, show_default=True, help="Interleaved runs of each figure."
)
@click.option("--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="Length of a run.")
def main(runs: int, seconds: float) -> None:
    """Measure and write bench/results.json."""
    from tests.bench import freshness, merge_cost, push_and_pull, read_throughput, redis_keys, results

    for benchmark in (read_throughput, redis_keys, freshness, merge_cost, push_and_pull):
        figures = benchmark.run(runs=runs, seconds=seconds)
        for figure in figures:
            click.echo(str(figure))
        results.write(figures)
    click.echo(f"written to {results.FILE}")


if __name__ == "__main__":
    main()
