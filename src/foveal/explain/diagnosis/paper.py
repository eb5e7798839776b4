"""Mistake 7: a module that departs from its paper without saying so.

    y = Concat_h(softmax(c·Q_h K_hᵀ) V_h) W_O + b
    from its own projections (rebuild.py), or a sentence that says where it departs

A module is free to do something else; the mistake is that its documentation does not say so.
"""

from foveal.explain.diagnosis.axes import mixed
from foveal.explain.diagnosis.docstring import claims_dot_product, departure, other_paper
from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.probe import Probe
from foveal.explain.diagnosis.rebuild import Rebuilt


def look(probe: Probe) -> Finding:
    rebuilt, subject = probe.rebuilt, probe.subject
    if not isinstance(rebuilt, Rebuilt):
        return Finding("paper", "not applicable", rebuilt)
    equation = "softmax(c·QKᵀ)V of " + ("its q, k and v" if subject.on_heads else "its own projections")
    numbers = {"measured": rebuilt.error, "expected": 0.0}
    if mixed(probe)[0]:
        return Finding(
            "paper", "not applicable", "its axes are mixed up (see there), which explains the difference", numbers
        )
    if rebuilt.close:
        return Finding("paper", "ok", f"equals {equation}: largest error {rebuilt.error:.2g}", numbers)
    stated, other = departure(subject.documentation), other_paper(subject.documentation)
    if stated:
        return Finding(
            "paper", "ok", f"differs from {equation} by {rebuilt.error:.3g}, and says so: {stated!r}", numbers
        )
    if other:
        return Finding("paper", "not applicable", f"it follows {other}, whose equation is not known here", numbers)
    if rebuilt.assumed and (probe.pattern != "all" or probe.disorder):
        return Finding(
            "paper",
            "not applicable",
            "its scores are no multiple of q·k, and it knows the order of its tokens: a position may be in them",
        )
    if rebuilt.assumed and not claims_dot_product(subject.name, subject.documentation):
        return Finding(
            "paper", "not applicable", "its scores are no multiple of q·k, and it does not claim that they are"
        )
    message = (
        f"differs from {equation} by up to {rebuilt.error:.3g}, and no sentence 'Departs from the paper: …' says how"
    )
    return Finding("paper", "mistake", message, numbers)
