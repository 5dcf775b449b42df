"""Makes docs/results.md, its plots, and the results in README.md and docs/speed.md from the records: `make results`.

The pages hold no other figures. Records of several seeds are pooled. A mean has an interval of 1.96 standard errors:
the larger one of that over patients within seeds and that between the means of the seeds. Textbook cases are the same
for every seed: their numbers have the fewest and the most.
"""

import functools
import hashlib
import math
import pathlib
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, PercentFormatter

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from benchmarks import records
from trainer.evaluation.estimates import Estimate
from trainer.reports import numbers
from trainer.reports.drawing import (
    COLOURS,
    DASHES,
    SERIES,
    Drawing,
    Key,
    Subplot,
    Tone,
    colour,
    svgs,
)

TEMPLATES = ROOT / "benchmarks" / "templates"
SIZES = {"cards_225": 225, "cards_1248": 1_248, "cards_4992": 4_992, "cards": 9_984}
POOLED = ("cards", "cards-225", "cards-1248", "cards-4992", "whole", "unlike", "serve", "paper")
LEARN, PROMISES = "learn", "promises"
"""Not pooled: curves over times of their own, and figures that some seeds do not have."""
QUALITY = {"appropriateness": "Appropriate", "safety": "Safe"}
PAGE, PLOTS = ROOT / "docs" / "results.md", ROOT / "docs" / "assets"
BLOCKS = {ROOT / "README.md": "readme.md.jinja", ROOT / "docs" / "speed.md": "speed.md.jinja"}
"""Pages of which a part is made, between two comments, and its template."""
BLOCK = re.compile(r"(<!-- made by make results -->\n).*?(<!-- end of what make results made -->\n)", re.DOTALL)
SHARE = numbers.APPROPRIATENESS._replace(key="", label="")
NORMAL = statistics.NormalDist().inv_cdf(0.975)
WHOLE_STEPS = (1, 2, 5, 10)
"""Between ticks, times a power of ten: percentages without a decimal."""
WIDTH, HEIGHT, APART, KEY_HEIGHT = 360, 252, 10, 26  # units of an SVG, of which Matplotlib has 72 an inch


class Number(NamedTuple):
    """A number of each seed: their mean, the least and the most."""

    mean: float
    least: float
    most: float


class Aim(NamedTuple):
    """What the default agent was meant to reach, and what it reaches."""

    what: str
    aim: str
    reached: str


class Series(NamedTuple):
    """A line of a plot."""

    key: Key
    places: Sequence[float]
    estimates: Sequence[Estimate]
    marker: str = "o"
    name: str = ""
    """Of a single point, written beside it."""


class Part(NamedTuple):
    """One pair of axes: shares over something else."""

    title: str
    series: Sequence[Series]
    label: str
    percent: bool = False
    logarithmic: bool = False


class Plot(NamedTuple):
    """A file of docs/assets."""

    name: str
    alt: str
    parts: Sequence[Part]
    keys: Sequence[Key]


def main() -> None:
    """Writes the pages and the plots."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def pages(folder: pathlib.Path = records.RESULTS) -> dict[pathlib.Path, str]:
    """Returns the text of each file that the records of a folder make."""
    read = {kind: records.read(folder, kind) for kind in (*POOLED, LEARN, PROMISES)}
    found = {kind.replace("-", "_"): pooled([each["figures"] for each in read[kind]]) for kind in POOLED}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 (Markdown, of figures)
    )
    environment.filters |= {
        each.__name__: each for each in (within, points, cases, spread, mean, beside, share, seconds)
    }
    environment.filters |= {"count": numbers.count, "several": numbers.several}
    preliminary = [kind for kind, some in read.items() if any(records.PLACEHOLDER in each for each in some)]
    tried = [each["seed"] for each in read["cards"] if each["seed"] in records.TRIED]
    values = {"records": read, "preliminary": preliminary, "tried": tried, "learn": read[LEARN][0]["figures"], **found}
    values |= {"missed_quality": list(missed_quality(found)), "missed_time": list(missed_time(found))}
    values["made"] = made(read)
    values["forest_red"] = forest_red([each["figures"]["interviews"] for each in read["whole"]])
    render = functools.partial(_rendered, environment, values)
    texts = {PAGE: render("results.md.jinja")}
    for path, template in BLOCKS.items():
        block = functools.partial(_block, render(template))
        texts[path] = BLOCK.sub(block, path.read_text(encoding="utf-8"))
    return texts | {PLOTS / f"results-{each.name}.svg": picture(each) for each in plots(found, read[LEARN])}


def made(read: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the records that were made on a date in one way, for each date and way."""
    together: dict[tuple[str, str], dict[str, list[str]]] = {}
    for kind, runs in read.items():
        last, seeds = runs[-1], ", ".join(str(each["seed"]) for each in runs if each["seed"] is not None)
        versions, machine = last["versions"], last["machine"]
        how = (
            f"Python {versions['python']}, TensorFlow {versions['tensorflow']}, {versions['dyqn_triage']}; "
            f"{machine['cores']} cores, {machine['processor']}"
        )
        together.setdefault((last["date"], how), {}).setdefault(seeds, []).append(kind)
    return [
        {
            "records": [", ".join(kinds) + (f" ({seeds})" if seeds else "") for seeds, kinds in by_seeds.items()],
            "date": date,
            "how": how,
        }
        for (date, how), by_seeds in together.items()
    ]


def forest_red(interviews: Sequence[Mapping[str, Any]]) -> Number:
    """Returns the share of Red cases that the forest finds with as much over-triage as the agent, of each seed.

    It lies between the two points of the forest's curve beside the agent's over-triage; NaN if that is outside.
    """
    shares = []
    for each in interviews:
        curve = [
            (one["over_triage"]["mean"], one["red_sensitivity"]["mean"]) for one in each["by_share_of_red"]["forest"]
        ]
        over, red = zip(*sorted(curve), strict=True)
        shares.append(float(np.interp(each["agent"]["over_triage"]["mean"], over, red, math.nan, math.nan)))
    return Number(statistics.mean(shares), min(shares), max(shares))


def missed_quality(found: Mapping[str, Any]) -> Iterator[Aim]:
    """Yields the aims for quality that the default agent does not reach."""
    cards, whole, fewer = found["cards"], found["whole"], found["cards_1248"]
    few = mean(fewer["vignettes"]["learned_from"])
    aims = (
        ("agent of written vignettes, interviews where it stops", 0.82, 0.963, cards["interviews"]["agent"]),
        ("agent of complete patients, after eight questions", 0.875, 0.955, whole["interviews"]["by_questions"][8]),
        ("agent of written vignettes, a whole vignette", 0.918, 0.967, cards["own"]["all_evidence"]),
        (f"the same, learned from {few} vignettes", 0.87, 0.955, fewer["own"]["all_evidence"]),
    )
    for what, appropriate, safe, figures in aims:
        reached = [figures[name].mean for name in QUALITY]
        if reached[0] < appropriate or reached[1] < safe:
            yield Aim(
                f"{what}: appropriate, safe", f"{share(appropriate)}, {share(safe)}", ", ".join(map(share, reached))
            )
    late = whole["cases"]["textbook"]["too_late"]["interview"]["without_rules"]
    if late.mean > 10:
        what = f"of {mean(whole['cases']['textbook']['emergencies'])} textbook emergencies, too late in interviews"
        yield Aim(f"agent of complete patients: {what} without rules", "at most 10", cases(late))


def missed_time(found: Mapping[str, Any]) -> Iterator[Aim]:
    """Yields the aims for time that are not reached."""
    for figures, aim in ((found["cards"], 90), (found["cards_1248"], 20)):
        spent = figures["training"]["processor_seconds"]
        if isinstance(spent, Number) and spent.mean > aim:  # not known of an interrupted training
            what = f"training on {mean(figures['vignettes']['learned_from'])} written vignettes, two cores"
            yield Aim(what, seconds(aim), f"{seconds(spent)} of processor time")
    turn = found["serve"]["questions"][0]["p50_ms"]
    if turn.mean > 2:
        yield Aim("a turn of an interview, one in progress", "2 ms", f"{mean(turn, 2)} ms (p50)")


def _rendered(environment: jinja2.Environment, values: Mapping[str, Any], template: str) -> str:
    return environment.get_template(template).render(values)


def _block(text: str, found: re.Match[str]) -> str:
    return f"{found[1]}\n{text.strip()}\n\n{found[2]}"


def pooled(runs: Sequence[Any]) -> Any:
    """Returns the figures of several seeds, alike in shape, as one: an `Estimate` or a `Number` for each."""
    first = runs[0]
    if isinstance(first, Mapping):
        if "low" in first:
            return over_seeds([Estimate(**each) for each in runs])
        return {key: pooled([each[key] for each in runs]) for key in first}
    if isinstance(first, list):
        return [pooled(each) for each in zip(*runs, strict=True)]
    known = [each for each in runs if isinstance(each, int | float)]
    if len(known) == len(runs) > 0:
        return Number(statistics.mean(known), min(known), max(known))
    return first


def over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Returns the mean of a figure over seeds with its 95% interval, see the top of the file."""
    means = [each.mean for each in estimates]
    errors = [(high - low) / (2 * NORMAL) for low, high in (each.ends or (each.mean, each.mean) for each in estimates)]
    error = sum(each**2 for each in errors) ** 0.5 / len(errors)
    if len(means) > 1:
        error = max(error, statistics.stdev(means) / len(means) ** 0.5)
    middle = statistics.mean(means)
    patients = [each.vignettes for each in estimates if each.vignettes is not None]
    return Estimate(middle, middle - NORMAL * error, middle + NORMAL * error, sum(patients) or None)


def within(estimate: Estimate, digits: int = 1, scale: float = 100) -> str:
    """Returns a mean and half of its interval, shares as percentages: "86.8 ± 1.1"."""
    low, high = estimate.ends or (estimate.mean, estimate.mean)
    return f"{scale * estimate.mean:.{digits}f} ± {scale * (high - low) / 2:.{digits}f}"


def points(estimate: Estimate) -> str:
    """Returns a difference of shares in percentage points with its interval."""
    return numbers.difference(SHARE, estimate)


def cases(number: Number) -> str:
    """Returns a number of cases: the mean of the seeds, and the fewest and the most if they differ."""
    if number.least == number.most:
        return f"{number.mean:.0f}"
    return f"{number.mean:.1f} ({number.least:.0f}{numbers.NONE}{number.most:.0f})"


def spread(shares: Iterable[float | None]) -> str:
    """Returns a share as a percentage: its mean over the seeds that have it, and the range if they differ."""
    known = [100 * each for each in shares if each is not None]
    if not known:
        return numbers.NONE
    least, most = (f"{each:.1f}" for each in (min(known), max(known)))
    return least if least == most else f"{statistics.mean(known):.1f} ({least}{numbers.NONE}{most})"


def beside(figure: Mapping[str, Number | None], digits: int = 3) -> str:
    """Returns a figure of the study, with the SD over trainings and the paper's own, where there are such."""
    own, sd, paper = (figure.get(key) for key in ("mean", "sd", "paper"))
    parts = (own and mean(own, digits), sd and f"SD {mean(sd, digits)}", paper and f"\\[{mean(paper, digits)}\\]")
    return " ".join(part for part in parts if part)


def share(value: float | None) -> str:
    """Returns a share as a percentage, and a dash for None."""
    return numbers.shown(SHARE, value)


def seconds(value: Number | float | None, otherwise: str = "never") -> str:
    """Returns a time, or what stands for none."""
    return otherwise if value is None else f"{value.mean if isinstance(value, Number) else value:.0f} s"


def mean(number: Number | Estimate, digits: int = 0) -> str:
    """Returns the mean alone."""
    return f"{number.mean:,.{digits}f}"


def plots(found: Mapping[str, Any], learned: Sequence[Mapping[str, Any]]) -> Iterator[Plot]:
    """Yields the plots of docs/results.md."""
    cards, whole = found["cards"]["interviews"], found["whole"]["interviews"]
    ours, written = Key("learned from complete patients", "blue", "-"), Key("from written vignettes", "orange", "-")
    trees, human = Key("random forest", "green", "--"), Key("simulated clinicians", "purple", ":")
    agents = ((ours, whole), (written, cards))
    asked = list(range(len(whole["by_questions"])))
    yield Plot(
        "questions",
        "Quality of the decision after each number of questions; a dot where the agent stops",
        [
            Part(
                title,
                [
                    *(Series(key, asked, [each[name] for each in some["by_questions"]], "") for key, some in agents),
                    *(Series(key, [some["agent"]["questions"].mean], [some["agent"][name]]) for key, some in agents),
                    Series(human, [asked[0], asked[-1]], [whole["clinicians"][name]] * 2, ""),
                ],
                "questions asked",
            )
            for name, title in QUALITY.items()
        ],
        [ours, written, human],
    )
    traded = [
        Series(
            key,
            [each["over_triage"].mean for each in whole["by_share_of_red"][who]],
            [each["red_sensitivity"] for each in whole["by_share_of_red"][who]],
            "",
        )
        for key, who in ((ours, "agent"), (trees, "forest"))
    ]
    traded += [
        Series(key, [whole[who]["over_triage"].mean], [whole[who]["red_sensitivity"]], marker, name)
        for key, who, marker, name in (
            (ours, "agent", "o", "without rules"),
            (ours, "with_rules", "s", "with rules"),
            (human, "clinicians", "o", ""),
        )
    ]
    yield Plot(
        "red",
        "Share of Red cases found over the share of cases that are triaged too urgently",
        [Part("Red found, by over-triage", traded, "over-triage", percent=True)],
        [ours, trees, human],
    )
    whose = {
        "all_evidence": Key("agent, all evidence", "blue", "-"),
        "agent": Key("agent, where it stops", "orange", "-."),
        "forest": trees,
        "clinicians": human,
    }
    yield Plot(
        "vignettes",
        "Quality over the number of vignettes to learn from",
        [
            Part(
                title,
                [
                    Series(key, list(SIZES.values()), [found[kind]["own"][who][name] for kind in SIZES])
                    for who, key in whose.items()
                ],
                "vignettes to learn from",
                logarithmic=True,
            )
            for name, title in (QUALITY | {"red_sensitivity": "Red found"}).items()
        ],
        list(whose.values()),
    )
    names = learned[0]["figures"]["curves"]
    contestants = {name: Key(name, tone, dash) for name, tone, dash in zip(names, SERIES, DASHES, strict=False)}
    yield Plot(
        "time",
        "Quality over seconds of training",
        [
            Part(
                title,
                [
                    Series(
                        contestants[name],
                        [point["seconds"] for point in curve],
                        [Estimate(point[measure]) for point in curve],
                        "" if len(curve) > 1 else "o",
                    )
                    for each in learned
                    for name, curve in each["figures"]["curves"].items()
                ],
                "seconds of training",
                logarithmic=True,
            )
            for measure, title in QUALITY.items()
        ],
        list(contestants.values()),
    )


def _draw(part: Part, axes: Axes) -> None:
    for each in part.series:
        means, ends = [one.mean for one in each.estimates], [one.ends for one in each.estimates if one.ends]
        tone = colour(each.key.colour)
        axes.plot(each.places, means, color=tone, linestyle=each.key.line, marker=each.marker, markersize=6)
        if len(ends) == len(means) > 2:
            axes.fill_between(each.places, *zip(*ends, strict=True), color=tone, alpha=0.12, linewidth=0)
        if each.name:
            place = (each.places[0], means[0])
            axes.annotate(each.name, place, (6, -14), textcoords="offset points", fontsize=11, color=tone)
    axes.set_xlabel(part.label)
    least = min(one.ends[0] if one.ends else one.mean for each in part.series for one in each.estimates)
    bottom = max(math.floor(least * 10 - 1e-9) / 10, 0)  # the multiple of 10% below; the top is just above 100%
    axes.set_ylim(bottom, 1 + (1 - bottom) / 20)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=WHOLE_STEPS))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    if part.logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    if part.percent:
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=WHOLE_STEPS))
        axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def picture(plot: Plot) -> str:
    """Returns a plot as an SVG file of its own: the parts side by side below a line of keys.

    Its description is made of the figures that are drawn, so that their change shows, whatever Matplotlib does.
    """
    panels = [Subplot(part.title, functools.partial(_draw, part)) for part in plot.parts]
    drawn = svgs(Drawing(plot.name, "", plot.alt, tuple(panels)))
    parts, left = [], 8
    for place, panel in enumerate(drawn):
        where = f'x="{place * (WIDTH + APART)}" y="{KEY_HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        parts.append(panel.replace("<svg ", f"<svg {where} ", 1))
    for key in plot.keys:
        stroke = f'stroke="var(--{key.colour})" stroke-width="2.5" stroke-dasharray="{DASHES[key.line]}"'
        parts.append(f'<path d="M{left} 14h26" {stroke}/>')
        parts.append(f'<text x="{left + 32}" y="18" font-size="12" fill="var(--ink)">{key.label}</text>')
        left += 50 + round(6.4 * len(key.label))
    light, dark = (";".join(f"--{name}:{getattr(tone, on)}" for name, tone in COLOURS.items()) for on in Tone._fields)
    style = f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}text{{font-family:sans-serif}}"
    width, height = max(len(drawn) * (WIDTH + APART), left), HEIGHT + KEY_HEIGHT
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<title>{plot.alt}</title>\n'
        f"<desc>{hashlib.sha256(repr(plot).encode()).hexdigest()}</desc>\n<style>{style}</style>\n"
        '<rect width="100%" height="100%" fill="var(--page)"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
