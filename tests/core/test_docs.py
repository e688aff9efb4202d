from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.pages import facts_page, make_site, matrix_page, rule_pages
from vlmguard import __version__

DOCS = Path(__file__).parents[2] / "docs"


def test_rule_pages_are_what_the_rules_say():
    for name, text in rule_pages.pages().items():
        assert (DOCS / "rules" / name).read_text("utf-8") == text, "run python -m tools.pages"


def test_the_matrix_page_is_what_the_records_say():
    page = matrix_page
    assert page.PAGE.read_text("utf-8") == page.text(page.load()), "run python -m tools.pages"


def test_the_facts_page_is_what_the_classes_say():
    page = facts_page
    assert page.PAGE.read_text("utf-8") == page.text(), "run python -m tools.pages"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('<a href="gone.html">x</a>', "no page gone.html"),
        ('<a href="other.html#gone">x</a>', "no anchor other.html#gone"),
        ('<a href="#gone">x</a>', "no anchor #gone"),
        ('<img src="https://elsewhere.org/x.png">', "fetches https://elsewhere.org/x.png"),
        ('<link rel="stylesheet" href="//fonts.org/x.css">', "fetches //fonts.org/x.css"),
        ('<a href="other.html#there">x</a><a href="https://elsewhere.org">y</a>', ""),
    ],
)
def test_the_site_finds_what_is_broken_and_what_is_fetched(tmp_path, body, told):
    (tmp_path / "index.html").write_text(body)
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1>')
    found = list(make_site.check(tmp_path))
    assert [told] == [each.partition(": ")[2] for each in found] if told else not found


def test_links_of_the_root_pages_survive_the_move(tmp_path):
    page = tmp_path / "x.md"
    page.write_text("[a](docs/ask.md#x) [b](SECURITY.md) [c](examples/x.md) [d](https://e.org)")
    source = make_site.SOURCE
    told = f"[a](ask.md#x) [b](security.md) [c]({source}examples/x.md) [d](https://e.org)"
    assert make_site._links(page) == told


@pytest.mark.parametrize(
    ("link", "moved"),
    [
        ("[a](../SECURITY.md)", "[a](security.md)"),
        ("[a](../../CONTRIBUTING.md#an-adapter)", "[a](../contributing.md#an-adapter)"),
        ("[a](../wrong/index.md)", "[a](../wrong/index.md)"),
    ],
)
def test_links_to_the_root_pages_survive_the_move(link, moved):
    assert make_site._moved(link) == moved


def test_every_link_between_pages_leads_somewhere():
    """On GitHub, too, where nothing moves them."""
    pages = [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]
    gone = [
        f"{page.relative_to(DOCS.parent)}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text("utf-8"))
        if not re.match(r"\w+:", link) and not (page.parent / link).exists()
    ]
    assert not gone, "\n".join(gone)


def test_every_page_that_the_readme_names_is_there():
    """On a package index only whole addresses lead somewhere."""
    text = (DOCS.parent / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 5
    for link in links:
        found = re.fullmatch(r"https://[^/]+/vlmguard/vlmguard/(?:blob/)?main/(.+)", link)
        assert found, link
        assert (DOCS.parent / found[1]).is_file(), link


def test_the_picture_fetches_nothing():
    text = (DOCS / "picture.svg").read_text("utf-8")
    assert "vlmguard: VG101 fixed" in text
    assert not re.search(r"(href|src)=|url\(|@font-face", text)


def test_the_changelog_has_the_form_of_keep_a_changelog():
    text = (DOCS.parent / "CHANGELOG.md").read_text("utf-8")
    heads = re.findall(r"(?m)^## (.+)$", text)
    assert heads[0] == "[Unreleased]"
    assert heads[1].startswith(f"[{__version__}] - ")
    for head in heads[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - 20\d\d-[01]\d-[0-3]\d", head)
    for name in re.findall(r"(?m)^## \[(.+?)\]", text):
        assert re.search(rf"(?m)^\[{re.escape(name)}\]: https://\S+$", text), name
    kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for part in re.split(r"(?m)^## ", text)[1:]:
        found = re.findall(r"(?m)^### (.+)$", part)
        assert found == [kind for kind in kinds if kind in found]
