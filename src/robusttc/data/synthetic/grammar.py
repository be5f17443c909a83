"""Utterances: one sentence that asks for something, with what the customer adds to it.

An utterance says something on every attribute that it must (what is wanted, of what, in which form) and on
some of the others. What it says on one attribute tells nothing about another: so tasks that label by
different attributes disagree on the very same text, and neither can read its labels off the other's words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.data.synthetic.attribute import Attribute
from robusttc.data.synthetic.words_customer import BENEFICIARY, TONE, URGENCY
from robusttc.data.synthetic.words_request import COARSE_INTENT, FORM, TOPIC
from robusttc.data.synthetic.words_service import CHANNEL, FINE_INTENT

__all__ = ["ATTRIBUTES", "write_utterances"]

# In the order of the families: the first six are the default ones.
ATTRIBUTES: tuple[Attribute, ...] = (
    TOPIC,
    TONE,
    URGENCY,
    FINE_INTENT,
    COARSE_INTENT,
    BENEFICIARY,
    CHANNEL,
    FORM,
)
# No sentence without these.
REQUIRED = (COARSE_INTENT, TOPIC, FORM)

# How often an utterance says nothing on an attribute that it may leave out. More said: longer texts, in
# which the words that count are harder to find.
SILENCE = 0.75
# How strongly the customers of one service keep to their favourite words: they use the r favourite ones of n
# cues with probability (r / n)^(1 / SKEW). The favourites differ from task to task, so the rare words of one
# task are common in another of its family: that is what sharing can teach.
SKEW = 7.0

VERB_SLOT = "*"
LINKS = ("for", "of", "concerning", "belonging to", "to do with")


def write_utterances(
    things: Sequence[str], attribute: Attribute, values: NDArray[np.intp], generator: np.random.Generator
) -> list[str]:
    """Write one utterance for each of `values`, which it says in some way; the rest is drawn.

    Parameters
    ----------
    things
        What the service field is about.
    attribute
        The attribute whose values are given.
    values
        The positions of the values in ``attribute.values``, one for each utterance.
    generator
        Where the draws come from.
    """
    n_rows = len(values)
    phrases = {
        other.name: draw_phrases(other, values if other is attribute else None, n_rows, generator)
        for other in ATTRIBUTES
    }
    links = generator.integers(len(LINKS), size=n_rows).tolist()
    drawn_things = generator.integers(len(things), size=n_rows).tolist()
    # Which of the orders of the additions, and whether the mood comes first.
    turns = generator.integers(3, size=n_rows).tolist()
    mood_first = (generator.random(n_rows) < 0.5).tolist()

    utterances = []
    for row in range(n_rows):
        said = {name: drawn[row] for name, drawn in phrases.items()}
        additions = [said[BENEFICIARY.name], said[CHANNEL.name], said[URGENCY.name]]
        turn = turns[row]
        request = [said[COARSE_INTENT.name], said[TOPIC.name], LINKS[links[row]], things[drawn_things[row]]]
        request += additions[turn:] + additions[:turn]
        sentence = said[FORM.name].replace(VERB_SLOT, " ".join(filter(None, request)))
        sentence = sentence[0].upper() + sentence[1:]
        mood, kind = said[TONE.name], said[FINE_INTENT.name]
        sentences = [mood, sentence, kind] if mood_first[row] else [sentence, kind, mood]
        utterances.append(" ".join(filter(None, sentences)))
    return utterances


def draw_phrases(
    attribute: Attribute, values: NDArray[np.intp] | None, n_rows: int, generator: np.random.Generator
) -> list[str]:
    """Draw what each row says on an attribute: its given value, or any value, or nothing (empty)."""
    n_values, n_phrasings = len(attribute.values), len(attribute.phrasings)
    # The same number of draws in every case, so that what is said on the others does not depend on it.
    drawn = generator.integers(n_values, size=n_rows)
    silent = generator.random(n_rows) < SILENCE
    favourites = generator.random(n_values)
    ranks = generator.random(n_rows) ** SKEW
    phrasings = generator.integers(n_phrasings, size=n_rows)
    if values is not None:
        drawn = values
    if values is not None or attribute in REQUIRED:
        silent[:] = False
    # The rank counts from the favourite cue on, and round to the first.
    n_cues = np.array([len(value.cues) for value in attribute.values])[drawn]
    cues = ((favourites[drawn] + ranks) * n_cues).astype(np.intp) % n_cues
    ways = attribute.phrases
    return [
        "" if is_silent else ways[value][place]
        for value, is_silent, place in zip(
            drawn.tolist(), silent.tolist(), (cues * n_phrasings + phrasings).tolist(), strict=True
        )
    ]
