"""English and German that a grammar makes from a seed: a set to translate, and no download.

Every English sentence has exactly one right translation here, but none word for word: articles and adjectives agree in
gender and case, verbs come second or last or leave their prefix at the end, time moves before place, forty-seven is
siebenundvierzig and half past three halb vier, and names that were never seen must be spelled.
"""

from foveal.data.grammar.read import COUNT, read_grammar
from foveal.data.grammar.sentence import sentences

__all__ = ["COUNT", "read_grammar", "sentences"]
