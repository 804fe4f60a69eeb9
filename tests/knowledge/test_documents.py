"""A person's documents: registering, finding, following changes, forgetting."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.types import VOCABULARY
from knowledge import DocumentError, Documents, Library, PageNotFound
from knowledge.documents import without_documents
from knowledge.documents.proposing import FAMILY_WORDS, SIGNAL_WORDS
from knowledge.families import FAMILIES
from knowledge.search import query_terms

from .making import GUIDE, folder, pdf

TARGET = "acme:x1"


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    return Documents(tmp_path / "home", recheck_s=0.0)


def found(documents: Documents, query: str, target: str = TARGET) -> list[str]:
    return [hit.id for hit in documents.search(query_terms(query), target=target).hits]


def index_files(documents: Documents) -> list[Path]:
    return sorted(documents.home.glob("*/passages-*.db"))


def test_passages_of_a_registered_folder_are_found_for_its_target(
    documents: Documents, tmp_path: Path
) -> None:
    added = documents.add(
        folder(tmp_path, guide_md=GUIDE, notes_txt="The doorbell register starts a zorble."),
        "acme",
        "x1",
    )
    assert (added.name, added.target, [d.path for d in added.documents]) == (
        "acme-x1",
        TARGET,
        ["guide.md", "notes.txt"],
    )
    hit = documents.search(query_terms("how large is the scratchpad"), target=TARGET).hits[0]
    assert (hit.id, hit.category) == ("documents/acme-x1/guide.md@2", "document")
    assert hit.section == "X1 programming guide > Scratchpad"
    assert "target acme:x1" in hit.why
    assert found(documents, "scratchpad", "acme") == found(documents, "scratchpad", "")
    assert not found(documents, "scratchpad", "acme:x2")
    assert not found(documents, "scratchpad", "cuda:sm_90")


def test_a_library_searches_and_reads_documents_beside_its_pages(
    documents: Documents, tmp_path: Path
) -> None:
    documents.add(folder(tmp_path, guide_md=GUIDE), "acme", "x1")
    library = Library.builtin().with_documents(documents)
    results = library.search("zorble unit tile size", target=TARGET)
    assert results.hits[0].id == "documents/acme-x1/guide.md@3"
    assert results.fits
    text = library.read(results.hits[0].id).text
    assert "> The zorble unit computes" in text
    assert "documents/acme-x1/guide.md@2" in text, "the neighbour"
    assert "> The zorble unit computes" in library.passage(
        results.hits[0].id, results.hits[0].section
    )
    assert library.read("documents/acme-x1/guide.md").text.count("> ") > 5
    assert library.extended().search("zorble unit", target=TARGET).hits[0].category == "document"
    library.close()


@pytest.mark.parametrize(
    "page",
    ["documents", "documents/", "documents/none/x", "documents/acme-x1/none.md@1",
     "documents/acme-x1/guide.md@99",
             "documents/acme-x1/../../etc/passwd",
             "documents/acme-x1/guide.md@999999999999999999999"],
)  # fmt: skip
def test_ids_that_lead_nowhere_say_so(documents: Documents, tmp_path: Path, page: str) -> None:
    documents.add(folder(tmp_path, guide_md=GUIDE), "acme", "x1")
    with pytest.raises(PageNotFound):
        Library(()).with_documents(documents).read(page)


def test_signals_lead_to_documents_by_what_a_person_let_stand(
    documents: Documents, tmp_path: Path
) -> None:
    added = documents.add(folder(tmp_path, guide_md=GUIDE), "acme", "x1")
    assert "memory_bound" in added.documents[0].about.signals
    hit = documents.search((), ["memory_bound"], TARGET).hits[0]
    assert "signal memory_bound" in hit.why
    added.review.write_text(
        json.dumps({"guide.md": {"signals": ["compute_bound"], "families": ["matmul"]}})
    )
    hit = documents.search((), ["memory_bound"], TARGET).hits[0]
    assert "signal memory_bound" not in hit.why, "its words still lead there"
    assert "operators: matmul" in documents.search(["tiles"], (), TARGET, ["matmul"]).hits[0].why
    again = documents.add(tmp_path / "manuals", "acme", "x1")
    assert again.documents[0].about.signals == ("compute_bound",), "adding again keeps the review"


@pytest.mark.parametrize(
    "review",
    ["{", "[]", '{"guide.md": 3}', '{"guide.md": {"signal": []}}',
     '{"guide.md": {"families": ["alchemy"]}}',
               '{"guide.md": {"signals": "x"}}', "[" * 100_000],
)  # fmt: skip
def test_a_review_that_cannot_be_read_is_named_and_search_goes_on(
    documents: Documents, tmp_path: Path, review: str
) -> None:
    added = documents.add(folder(tmp_path, guide_md=GUIDE), "acme", "x1")
    added.review.write_text(review)
    result = documents.search(["scratchpad"], target=TARGET)
    assert result.hits
    assert "review.json" in " ".join(result.notes)


def test_proposals_use_only_known_names() -> None:
    assert set(SIGNAL_WORDS) <= set(VOCABULARY)
    assert set(FAMILY_WORDS) <= FAMILIES


def test_changed_new_and_missing_files_are_followed(documents: Documents, tmp_path: Path) -> None:
    manuals = folder(tmp_path, guide_md=GUIDE, old_md="# Old\n\nThe frobnicator.\n")
    documents.add(manuals, "acme", "x1")
    (manuals / "guide.md").write_text(GUIDE.replace("96 KiB", "128 KiB of grumble memory"))
    folder(tmp_path, extra_md="# Extra\n\nThe wibble counter.\n")
    (manuals / "old.md").unlink()
    assert found(documents, "grumble") == ["documents/acme-x1/guide.md@2"]
    assert found(documents, "wibble")
    result = documents.search(["frobnicator"], target=TARGET)
    assert not result.hits
    assert "old.md is gone" in " ".join(result.notes)
    assert not documents.search(["frobnicator"], target="cpu").notes, (
        "whom it does not concern is not told"
    )
    folder(tmp_path, old_md="# Old\n\nThe frobnicator.\n")
    assert found(documents, "frobnicator")


def test_a_folder_that_is_gone_is_named_and_comes_back(
    documents: Documents, tmp_path: Path
) -> None:
    manuals = folder(tmp_path, guide_md=GUIDE)
    documents.add(manuals, "acme", "x1")
    manuals.rename(tmp_path / "away")
    result = documents.search(["scratchpad"], target=TARGET)
    assert not result.hits
    assert "is gone" in " ".join(result.notes)
    with pytest.raises(PageNotFound, match="is gone"):
        documents.page("documents/acme-x1/guide.md@2")
    (tmp_path / "away").rename(manuals)
    assert found(documents, "scratchpad")


def test_removing_forgets_and_keeps_the_files(documents: Documents, tmp_path: Path) -> None:
    manuals = folder(tmp_path, guide_md=GUIDE)
    documents.add(manuals, "acme", "x1")
    documents.remove("acme-x1")
    assert documents.registered() == ((), ())
    assert not found(documents, "scratchpad")
    assert (manuals / "guide.md").exists()
    assert not list(documents.home.iterdir())
    with pytest.raises(PageNotFound):
        documents.remove("acme-x1")


@pytest.mark.parametrize(
    ("vendor", "arch", "name", "words"),
    [
        ("nvidia", "sm_90", "", "is .cuda."),
        ("Ac me", "", "", "not a valid vendor"),
        ("acme", "x/1", "", "not a valid architecture"),
        ("acme", "x1", "../up", "not a valid name"),
    ],
)
def test_wrong_names_are_explained(
    documents: Documents, tmp_path: Path, vendor: str, arch: str, name: str, words: str
) -> None:
    with pytest.raises(DocumentError, match=words):
        documents.add(folder(tmp_path, guide_md=GUIDE), vendor, arch, name)


def test_what_cannot_be_registered_leaves_nothing(documents: Documents, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="not a folder"):
        documents.add(tmp_path / "none", "acme")
    with pytest.raises(DocumentError, match="no readable document"):
        documents.add(folder(tmp_path, image_png=b"x", empty_md="\n"), "acme")
    assert documents.registered() == ((), ())
    documents.add(folder(tmp_path, guide_md=GUIDE), "acme")
    with pytest.raises(DocumentError, match="Choose another name"):
        documents.add(tmp_path, "acme")


def test_a_registration_that_cannot_be_read_is_named(documents: Documents, tmp_path: Path) -> None:
    documents.add(folder(tmp_path, guide_md=GUIDE), "acme", "x1")
    (documents.home / "broken").mkdir()
    (documents.home / "broken" / "source.json").write_text("{")
    result = documents.search(["scratchpad"], target=TARGET)
    assert result.hits
    assert "'broken'" in " ".join(result.notes)


@pytest.mark.parametrize("harm", ["truncate", "garbage", "middle", "empty", "other text"])
def test_a_damaged_index_is_built_anew(documents: Documents, tmp_path: Path, harm: str) -> None:
    documents.add(folder(tmp_path, guide_md=GUIDE, notes_txt="Notes. " * 4000), "acme", "x1")
    (path,) = index_files(documents)
    data = path.read_bytes()
    if harm == "other text":
        with sqlite3.connect(path) as db:
            db.execute(
                "UPDATE passages SET text = 'the scratchpad is on fire' WHERE text LIKE '%96 KiB%'"
            )
        db.close()
    else:
        path.write_bytes(
            {
                "truncate": data[: len(data) // 2],
                "garbage": b"not a database" * 1000,
                "empty": b"",
            }.get(harm, data[:4096] + bytes(len(data) - 4096))
        )
    hits = documents.search(["scratchpad"], target=TARGET).hits
    assert [hit.id for hit in hits] == [
        "documents/acme-x1/guide.md@2",
        "documents/acme-x1/guide.md@3",
    ]
    assert "96 KiB" in documents.page(hits[0].id).body
    (new,) = index_files(documents)
    assert new != path, "another process may still have the old one open"


WRITER = """
import sys
from pathlib import Path
from knowledge import Documents
Documents(Path(sys.argv[1])).add(Path(sys.argv[2]), "acme", "x1", progress=lambda path: print(path, flush=True))
"""  # noqa: E501


def test_a_process_killed_while_it_writes_loses_nothing(
    documents: Documents, tmp_path: Path
) -> None:
    manuals = folder(
        tmp_path, **{f"part{n}_md": GUIDE.replace("zorble", f"zorble{n}") * 40 for n in range(30)}
    )
    documents.add(manuals, "acme", "x1")
    for n in range(30):
        (manuals / f"part{n}.md").write_text(GUIDE.replace("zorble", f"quux{n}") * 40)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(documents.home), str(manuals)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    for n in range(30):
        assert found(documents, f"quux{n}"), n
        assert not found(documents, f"zorble{n}"), n
    assert len(documents.registered()[0][0].documents) == 30


def test_several_processes_read_one_folder_at_once(documents: Documents, tmp_path: Path) -> None:
    manuals = folder(
        tmp_path, **{f"part{n}_md": GUIDE.replace("zorble", f"zorble{n}") for n in range(10)}
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(documents.home), str(manuals)]
    running = [
        subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    errors = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], errors
    assert all(found(documents, f"zorble{n}") for n in range(10))


def test_several_threads_search_while_files_change(documents: Documents, tmp_path: Path) -> None:
    manuals = folder(tmp_path, guide_md=GUIDE)
    documents.add(manuals, "acme", "x1")
    misses: list[object] = []

    def search() -> None:
        for _ in range(20):
            result = documents.search(["scratchpad"], target=TARGET)
            if not result.hits:
                misses.append(result.notes)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(20):
        (tmp_path / "new").write_text(GUIDE + f"\nMore {n}.\n")
        (tmp_path / "new").replace(manuals / "guide.md")
    for thread in threads:
        thread.join()
    assert not misses


def test_html_and_pdf_are_read(documents: Documents, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    pytest.importorskip("bs4")
    page = (
        "<html><head><title>t</title><style>p {}</style></head><body><nav>menu gonk</nav><h1>The "
        "<b>X1</b> &amp; more</h1><p>The flarp cache.</p><script>steal()</script><h2>Wait "
        "states</h2><pre># vload takes\n  9 cycles</pre><!-- hidden --></body></html>"
    )
    manuals = folder(
        tmp_path,
        web_html=page,
        book_pdf=pdf("The matrix engine multiplies tiles.", "The gribble port."),
    )
    added = documents.add(manuals, "acme", "x1")
    assert [(d.path, d.title, d.problem) for d in added.documents] == [
        ("book.pdf", "The matrix chapter", ""),
        ("web.html", "The X1 & more", ""),
    ]
    hit = documents.search(["gribble"], target=TARGET).hits[0]
    assert hit.section == "The matrix chapter > page 2"
    hit = documents.search(["vload"], target=TARGET).hits[0]
    assert hit.section == "The X1 & more > Wait states"
    assert not found(documents, "steal") + found(documents, "gonk") + found(documents, "hidden")


def test_without_the_libraries_the_files_say_what_is_missing(
    documents: Documents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    for name in ("bs4", "pypdf"):
        (blocked / name).mkdir(parents=True)
        (blocked / name / "__init__.py").write_text("raise ImportError('not here')")
    monkeypatch.setattr(sys, "path", [str(blocked), *sys.path])
    added = documents.add(
        folder(tmp_path, guide_md=GUIDE, web_html="<p>x", book_pdf=b"%PDF"), "acme", "x1"
    )
    problems = {d.path: d.problem for d in added.documents}
    assert problems["guide.md"] == ""
    assert "kevolve-mcp[documents]" in problems["web.html"]
    assert "kevolve-mcp[documents]" in problems["book.pdf"]
    assert found(documents, "scratchpad")


def test_headings_of_every_form_cut_passages(documents: Documents, tmp_path: Path) -> None:
    manuals = folder(
        tmp_path,
        a_md="Title\n=====\n\n```\n# not a heading\n```\n\nPart\n----\n\nalpha\n",
        b_adoc=(
            "= Title\n\nA line that goes on\n= with an equals sign.\n\n== Part\n\n----\n"
            "== not a heading\n----\n\nbeta\n"
        ),
        c_rst="Title\n*****\n\nPart\n----\n\ngamma\n",
        d_txt="# delta in a comment\n\nplain text without headings\n",
        e_md="# Never closed\n\n```\n\n## Later\n\nepsilon\n",
    )
    documents.add(manuals, "acme", "x1")
    sections = {
        word: documents.search([word], target=TARGET).hits[0].section
        for word in ("alpha", "beta", "gamma", "delta", "epsilon")
    }
    expected = dict.fromkeys(("alpha", "beta", "gamma"), "Title > Part")
    assert sections == {**expected, "delta": "", "epsilon": "Never closed > Later"}


def test_an_ask_goes_out_without_passages_of_documents(
    documents: Documents, tmp_path: Path
) -> None:
    documents.add(folder(tmp_path, guide_md=GUIDE + "\n## How to answer\n\nsecret\n"), "acme", "x1")
    text = documents.page("documents/acme-x1/guide.md").body
    ask = (
        "## Ask a1\nfirst\n\n## Known: ours\nours stays\n\n## Known: X1\n"
        f"Found through target acme:x1.\n{text}\n\n## How to answer\nlast"
    )
    kept = without_documents(ask)
    assert "scratchpad" not in kept
    assert "secret" not in kept
    assert all(part in kept for part in ("first", "ours stays", "## How to answer\nlast"))
    assert without_documents("## Ask\nnothing of the kind") == "## Ask\nnothing of the kind"


def test_a_home_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(DocumentError, match="cannot be written"):
        Documents(tmp_path / "home").add(folder(tmp_path, guide_md=GUIDE), "acme")
    shutil.rmtree(tmp_path / "manuals")
