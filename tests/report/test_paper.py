"""References: read from a docstring's line, written as BibTeX."""

import pytest

from foveal.errors import FovealError
from foveal.report.paper import Paper, parted

TRANSFORMER = (
    "Ashish Vaswani, Aidan N. Gomez, Łukasz Kaiser (2017). Attention is all you need. NeurIPS. arXiv:1706.03762."
)


def test_every_part_of_a_line_is_read() -> None:
    paper = Paper.read(TRANSFORMER)
    assert paper == Paper(
        ("Ashish Vaswani", "Aidan N. Gomez", "Łukasz Kaiser"),
        2017,
        "Attention is all you need",
        "NeurIPS",
        "1706.03762",
    )
    assert str(paper) == TRANSFORMER


@pytest.mark.parametrize(
    ("line", "title", "venue", "arxiv", "doi"),
    [
        ("A B (2020). Longformer: the long one. arXiv:2004.05150.", "Longformer: the long one", "", "2004.05150", ""),
        (
            "A B (2019). Are sixteen heads really better than one? NeurIPS. arXiv:1905.10650.",
            "Are sixteen heads really better than one?",
            "NeurIPS",
            "1905.10650",
            "",
        ),
        (
            "A B (2019). What does it look at? An analysis. arXiv:1906.04341.",
            "What does it look at? An analysis",
            "",
            "1906.04341",
            "",
        ),
        (
            "A B (1997). Long short-term memory. Neural Computation. doi:10.1162/neco.1997.9.8.1735.",
            "Long short-term memory",
            "Neural Computation",
            "",
            "10.1162/neco.1997.9.8.1735",
        ),
        ("A B (2001). Old one. arXiv:cs/0112017. doi:10.1/x.", "Old one", "", "cs/0112017", "10.1/x"),
        ("A B (2001). Only a title.", "Only a title", "", "", ""),
    ],
)
def test_venue_arxiv_and_doi_may_be_missing(line: str, title: str, venue: str, arxiv: str, doi: str) -> None:
    paper = Paper.read(line)
    assert (paper.title, paper.venue, paper.arxiv, paper.doi) == (title, venue, arxiv, doi)


def test_a_question_is_not_cut_into_a_title_and_a_venue() -> None:
    assert Paper.read("A B (2019). Why? Because I can. ICLR.").title == "Why? Because I can"
    assert Paper.read("A B (2019). Why? Because I can").venue == ""


def test_a_line_comes_back_as_it_was() -> None:
    for line in (
        TRANSFORMER,
        "A B (2019). Why? ICLR. arXiv:1905.10650.",
        "A B (1997). Memory. Neural Computation. doi:10.1162/neco.1997.",
    ):
        assert str(Paper.read(line)) == line


@pytest.mark.parametrize(
    "line",
    [
        "Vaswani 2017 Attention is all you need",
        "A B (17). Title.",
        "A B et al. (2017). Title.",
        "A B and C D (2017). Title.",
        "A B, , C D (2017). Title.",
        "A B (2017). Title. arXiv 1706.03762.",
        "A B (2017). Title. arXiv:1706.03762. ICLR.",
    ],
)
def test_a_malformed_line_is_refused(line: str) -> None:
    with pytest.raises(FovealError, match=r"^Paper: expected"):
        Paper.read(line)


def test_family_names_keep_their_small_words() -> None:
    assert parted("Aidan N. Gomez") == ("Gomez", "Aidan N.")
    assert parted("Laurens van der Maaten") == ("van der Maaten", "Laurens")
    assert parted("Michiel de Jong") == ("de Jong", "Michiel")
    assert parted("Loic Le Folgoc") == ("Le Folgoc", "Loic")
    assert parted("Quoc V. Le") == ("Le", "Quoc V.")
    assert parted("Plato") == ("Plato", "")


def test_bibtex_of_a_conference_paper() -> None:
    assert Paper.read(TRANSFORMER).bibtex() == (
        "@inproceedings{vaswani2017attention,\n"
        "  title = {{Attention is all you need}},\n"
        "  author = {Vaswani, Ashish and Gomez, Aidan N. and Kaiser, Łukasz},\n"
        "  booktitle = {Advances in Neural Information Processing Systems},\n"
        "  year = {2017},\n"
        "  eprint = {1706.03762},\n"
        "  archivePrefix = {arXiv}\n"
        "}"
    )


def test_bibtex_of_a_journal_paper_and_of_a_preprint() -> None:
    article = Paper.read("Colin Raffel (2020). Exploring limits. JMLR. arXiv:1910.10683.").bibtex()
    assert article.startswith("@article{raffel2020exploring,\n")
    assert "  journal = {Journal of Machine Learning Research},\n" in article
    unlisted = Paper.read("A B (1997). Memory & more. Neural Computation. doi:10.1162/n_1.").bibtex()
    assert unlisted.startswith("@article{b1997memory,")
    assert "{{Memory \\& more}}" in unlisted
    assert "doi = {10.1162/n_1}" in unlisted
    preprint = Paper.read("Iz Beltagy (2020). Longformer: long. arXiv:2004.05150.").bibtex()
    assert preprint.startswith("@misc{beltagy2020longformer,\n")
    assert "booktitle" not in preprint
    assert "journal" not in preprint
    workshop = Paper.read("A B (2020). Title. Workshop on Attention.").bibtex()
    assert workshop.startswith("@inproceedings{")
    assert "booktitle = {Workshop on Attention}" in workshop
    assert "archivePrefix" not in workshop


def test_keys_are_plain_ascii() -> None:
    assert Paper(("Łukasz Kaiser",), 2017, "One model").key == "kaiser2017one"
    assert Paper(("Federico Lebrón",), 2023, "GQA: more").key == "lebron2023gqa"
    assert Paper(("Søren Łøß",), 2020, "“Über” alles").key == "loss2020uber"
    assert Paper(("Laurens van der Maaten",), 2008, "Visualizing data").key == "vandermaaten2008visualizing"
