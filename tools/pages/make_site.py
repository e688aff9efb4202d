"""The site: ``python -m tools.pages.make_site build`` writes site/, ``look`` opens it in a browser.

Zensical builds a copy of docs/ in which the pages that lie elsewhere (changelog, security, how to
contribute) or are made from the tables (the questions that people ask of them) have been put.
Broken links and anchors are errors, and so is anything that a page would fetch from elsewhere.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import html.parser
import http.server
import itertools
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / ".site" / "docs"
SITE = ROOT / "site"
SHOTS = ROOT / ".site" / "shots"
FROM_ROOT = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md",
             "CONTRIBUTING.md": "contributing.md"}  # fmt: skip
SOURCE = "https://github.com/vlmguard/vlmguard/blob/main/"
LOOKED_AT = ("index.html", "start/ms-swift.html", "wrong/ready-only-once.html", "rules/VG101.html",
             "ledger.html", "ledger-page.html", "ask.html", "contributing.html")  # fmt: skip
EXAMPLE = "ledger-page.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
WORDS = {
    "two_tower": "any",
    "qwen2_vl": "Qwen2-VL",
    "per_image": "its tower is called once per image",
    "tied": "two blocks share a weight",
    "two_forwards": "two forwards before one backward",
    "images": "images in all",
    "text": "text only",
    "differ": "ranks differ",
    "differ_dummy": "a blank image where there is none",
    "image_then_text": "a step of images, then one of text",
    "none": "off",
    "non_reentrant": "non-reentrant",
}
FETCHES = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


def gather() -> None:
    """Make the copy that is built."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT / "docs", COPY, ignore=shutil.ignore_patterns("__pycache__"))
    for page in COPY.rglob("*.md"):
        page.write_text(_moved(page.read_text("utf-8")), "utf-8")
    for name, target in FROM_ROOT.items():
        (COPY / target).write_text(_links(ROOT / name), "utf-8")
    (COPY / "ask.md").write_text("\n".join(ask()), "utf-8")
    _example()


def _example() -> None:
    """What ``vlmguard ledger --html`` makes of a real run: two ranks, a training_step that calls
    the model and not its wrapper."""
    sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]
    from vlmguard.ledger.report import page, read

    report = COPY / "data" / "ledger_report.jsonl"
    (COPY / EXAMPLE).write_text(page.page(read.runs(report)[-1], report.name), "utf-8")
    with (COPY / "ledger.md").open("a", encoding="utf-8") as text:
        text.write(f"\n[The page of a run that went wrong]({EXAMPLE}).\n")


def _moved(text: str) -> str:
    """A page of docs/: its links to the root folder's pages, which have moved into the site."""
    names = "|".join(map(re.escape, FROM_ROOT))
    return re.sub(
        rf"\]\(\.\./((?:\.\./)*)({names})(?=[)#])",
        lambda found: f"]({found[1]}{FROM_ROOT[found[2]]}",
        text,
    )


def _links(file: Path) -> str:
    """A page of the root folder: its links to docs/ become the site's, others the repository's."""

    def moved(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"https?:|#", target):
            return found[0]
        name, _, anchor = target.partition("#")
        page = FROM_ROOT.get(name, name.removeprefix("docs/"))
        inside = name in FROM_ROOT or name.startswith("docs/")
        return f"{found[1]}({(page if inside else SOURCE + name) + (anchor and '#' + anchor)})"

    return re.sub(r"(\[[^\]]*\])\(([^)\s]+)\)", moved, file.read_text("utf-8"))


def ask() -> Iterator[str]:
    """What people ask of the tables: silent failures on top, then releases to choose."""
    sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]
    yield "# Which checkpointing works with your releases?\n"
    yield "The same tables answer in a shell: `vlmguard compat --torch 2.6 --deepspeed 0.16.9 --strategy zero3 --tuning lora`.\n"  # noqa: E501
    yield from _chooser()
    yield "\n## Silent: no error, wrong weights\n"
    yield from _silent()
    yield "\nEvery case of every release set is in [all tables](compatibility.md).\n"


def _chooser() -> Iterator[str]:
    from vlmguard.compat import cases, choice, verdicts

    axes = {
        "torch": [str(v) for v in verdicts.releases_of("torch")],
        "deepspeed": [str(v) for v in verdicts.releases_of("deepspeed")],
        "strategy": list(cases.STRATEGIES),
        "tuning": list(cases.TUNING),
    }
    told: dict[str, int] = {}
    answers = []
    for torch, deepspeed, strategy, tuning in itertools.product(*axes.values()):
        query = cases.Query(
            {"torch": torch, "deepspeed": deepspeed},
            "ddp" if strategy.startswith("ddp") else strategy,
            strategy,
            tuning=(tuning,),
        )
        answers.append(told.setdefault(_sentence(choice.answer(query)), len(told)))
    data = json.dumps({"axes": axes, "told": list(told), "answers": answers})
    yield '<div id="ask" class="ask">'
    for axis, values in axes.items():
        options = "".join(f"<option>{value}</option>" for value in reversed(values))
        yield f'<label>{axis} <select name="{axis}">{options}</select></label>'
    yield '<p id="answer" aria-live="polite"><strong></strong></p>'
    yield "</div>"
    yield f'<script type="application/json" id="tables">{data}</script>'
    yield f"<script>{_SCRIPT}</script>\n"


_SCRIPT = """
const tables = JSON.parse(document.getElementById("tables").textContent);
const box = document.getElementById("ask");
function show() {
  let place = 0;
  for (const [axis, values] of Object.entries(tables.axes))
    place = place * values.length + values.indexOf(box.querySelector(`[name=${axis}]`).value);
  document.querySelector("#answer strong").textContent = tables.told[tables.answers[place]];
}
box.addEventListener("change", show); show();
"""


def _sentence(answer: object) -> str:
    variant = {True: "reentrant", False: "non-reentrant", None: "as it is"}
    words = {"works": "works", "untested": "probably works; not run by us on these releases"}
    verdict = answer.verdict  # type: ignore[attr-defined]
    if verdict in words:
        if answer.options[0].broken:  # type: ignore[attr-defined]
            return f"Probably nothing works: {answer.evidence}"  # type: ignore[attr-defined]
        use = variant[answer.use_reentrant]  # type: ignore[attr-defined]
        more = f" Note: {answer.notes[0]}." if answer.notes else ""  # type: ignore[attr-defined]
        return f"{use[0].upper()}{use[1:]}: {words[verdict]}.{more}"
    if verdict == "nothing":
        instead = ", ".join(answer.instead) or "none was found"  # type: ignore[attr-defined]
        return f"Nothing works. The nearest that does: {instead}."
    return "Not known."


def _silent() -> Iterator[str]:
    """Cases of the newest full release set that end well and are wrong, alike ones together."""
    from tools.lab.page import every_case
    from vlmguard.compat import cases, verdicts

    newest = next(each for each in verdicts.measured().sets if each.name == "newest")
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for case in every_case():
        if verdicts.verdict(newest, case) in ("wrong", "drift"):
            key = (case.strategy, case.checkpointing, case.model)
            found.setdefault(key, {})[case.batch] = None
    yield f"On torch {newest.releases['torch']} with DeepSpeed {newest.releases['deepspeed']}:\n"
    yield "| strategy | checkpointing | model | batches |"
    yield "| --- | --- | --- | --- |"
    for (strategy, variant, model), batches in found.items():
        every = len(batches) == len(cases.BATCHES)
        told = "any" if every else ", ".join(WORDS[batch] for batch in batches)
        yield f"| {strategy} | {WORDS.get(variant, variant)} | {WORDS[model]} | {told} |"


def build() -> int:
    """Build, then look at what was built."""
    gather()
    zensical = Path(sys.executable).with_name("zensical")
    code = subprocess.run([zensical, "build", "--clean", "--strict"], cwd=ROOT).returncode
    if code:
        return code
    problems = list(check(SITE))
    print("\n".join(problems) or f"site/: {len(list(SITE.rglob('*.html')))} pages, all links hold")
    return int(bool(problems))


class _Page(html.parser.HTMLParser):
    """What a page links to, what it fetches, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given[name] or "" for name in ("id", "name") if name in given}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        kind = given.get("rel")
        if tag in FETCHES and given.get(FETCHES[tag]) and kind not in ("canonical", "next", "prev"):
            self.fetched.append(given[FETCHES[tag]] or "")


def check(site: Path) -> Iterator[str]:
    """Links and anchors that lead nowhere; anything fetched from elsewhere, in pages and styles."""
    pages = {file.resolve(): _Page(file.read_text("utf-8")) for file in site.rglob("*.html")}
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        for target in page.fetched:
            if re.match(r"(https?:)?//", target):
                yield f"{name}: fetches {target}"
        for target in [] if file.name == "404.html" else page.links:
            if re.match(r"\w+:|//", target):
                continue
            path, _, anchor = target.partition("#")
            there = (file.parent / path).resolve() if path else file
            if not there.exists():
                yield f"{name}: no page {target}"
            elif anchor and there in pages and anchor not in pages[there].anchors:
                yield f"{name}: no anchor {target}"
    for file in site.rglob("*.css"):
        for target in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", file.read_text("utf-8")):
            yield f"{file.relative_to(site)}: fetches {target}"


def look(only_some: bool) -> int:
    """Open pages in Chromium, light and dark: no error, no request elsewhere, no scrolling sideways
    at 390 px."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("NOT LOOKED AT: there is no Chromium here (Debian: apt-get install chromium)")
        return 0
    from playwright.sync_api import sync_playwright

    names = (
        LOOKED_AT if only_some else [p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html")]
    )
    problems: list[str] = []
    with _served() as home, sync_playwright() as play:
        opened = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name in names:
            for width, scheme in ((390, "light"), (1280, "light"), (1280, "dark")):
                page = opened.new_page(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                page.on("pageerror", lambda e, n=name: problems.append(f"{n}: {e}"))
                page.on(
                    "console",
                    lambda m, n=name: m.type == "error" and problems.append(f"{n}: {m.text}"),
                )
                page.on(
                    "request",
                    lambda r, n=name: (
                        r.url.startswith((home, "data:", "blob:"))
                        or problems.append(f"{n}: asks {r.url}")
                    ),
                )
                page.goto(f"{home}/{name}", wait_until="load")
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    problems.append(f"{name}: {wide} px wide on {width}")
                if not only_some:
                    stem = name.removesuffix(".html").replace("/", "-")
                    shot = SHOTS / f"{stem}-{width}{'-dark' * (scheme == 'dark')}.png"
                    page.screenshot(path=shot, full_page=True)
                page.close()
        opened.close()
    print("\n".join(problems) or f"{len(names)} pages looked at in {Path(browser).name}")
    return int(bool(problems))


@contextlib.contextmanager
def _served() -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def main() -> int:
    """``build`` or ``look [--only-some]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["build", "look"])
    parser.add_argument("--only-some", action="store_true")
    given = parser.parse_args()
    return build() if given.what == "build" else look(given.only_some)


if __name__ == "__main__":
    sys.exit(main())
