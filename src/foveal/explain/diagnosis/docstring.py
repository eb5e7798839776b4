"""What the author of a module says about it: where it departs, which paper it follows, what it claims to be."""

import re

FIRST_PAPER = "1706.03762"  # Attention is all you need


def departure(documentation: str) -> str:
    """The sentence that announces a departure; empty if there is none, or if it says "nothing"."""
    for line in documentation.splitlines():
        found = re.search(r"\b(departs?\b|differs? from|deviates?\b|unlike the (paper|original))", line, re.IGNORECASE)
        if found and not re.search(r"\bdeparts?[^:]*:\s*nothing\b", line, re.IGNORECASE):
            return " ".join(line.split())
    return ""


def other_paper(documentation: str) -> str:
    """A paper that is cited and is not the first one; empty if there is none, or if the first one is cited too."""
    cited = re.findall(r"(?:arxiv[^\d\n]{0,20}|abs/|pdf/)(\d{4}\.\d{4,5})", documentation, re.IGNORECASE)
    if FIRST_PAPER in cited or re.search("attention is all you need", documentation, re.IGNORECASE):
        return ""
    named = re.search(r"^\s*Paper:\s*(.+)$", documentation, re.MULTILINE)
    return f"arXiv:{cited[0]}" if cited else named.group(1)[:80] if named else ""


def claims_dot_product(name: str, documentation: str) -> bool:
    """Whether it calls itself multi-head, self- or scaled dot-product attention."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) + "\n" + documentation
    return bool(
        re.search(
            rf"multi.?head|self.?attention|scaled.?dot|attention is all you need|{FIRST_PAPER}", words, re.IGNORECASE
        )
    )
