"""The words in the names of labels: ``faq/order_status`` says what its texts are about, ``A17`` does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from robusttc.data import TaskSet
from robusttc.encoders import Encoder
from robusttc.errors import UsageError, quote
from robusttc.progress import Progress

NOT_A_WORD = re.compile(r"[\W_]+")

# Words that only say "this is a label".
EMPTY_WORDS = frozenset(
    {"category", "cat", "class", "cls", "cluster", "code", "group", "id", "index", "intent", "item", "kind"}
    | {"label", "lbl", "level", "num", "number", "option", "tag", "target", "topic", "type", "unknown"}
    | {"value", "x", "y"}
)
SHORTEST_WORD = 3
SHORT_WORDS = frozenset({"go", "hi", "no", "ok", "tv"})
MOST_CONSONANTS = 5
VOWELS = frozenset("aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿ")
LEAST_SHARE = 0.5


def label_words(label: str) -> str:
    """Return the name of a label as words, for an encoder of sentences.

    Separators, changes from small letters to capitals and from letters to digits part words; the words are
    in small letters. A name without a letter or digit stays as it is.

    Examples
    --------
    >>> label_words("faq/order_status"), label_words("bookFlightABTest2"), label_words("ask-ETA")
    ('faq order status', 'book flight ab test 2', 'ask eta')
    """
    words = NOT_A_WORD.sub(" ", part_words(label)).split()
    return " ".join(words).lower() if words else label


@lru_cache(maxsize=2**16)
def label_key(name: str) -> str:
    """Return what labels of the same name have in common: their words, or, without words, their characters.

    >>> label_key("ThankYou"), label_key("-1")
    ('thank you', '-1')
    """
    key = label_words(name).lower() or name
    # Signs carry no word, and tell -1 from 1.
    return key if any(sign.isalpha() for sign in key) else name


def part_words(label: str) -> str:
    """Put a space where the case or the kind of characters says that a new word begins."""
    parted = label[:1]
    for place in range(1, len(label)):
        before, here, after = label[place - 1], label[place], label[place + 1 : place + 2]
        # "HTTPError" has its boundary before the last capital.
        new_case = here.isupper() and (before.islower() or (before.isupper() and after.islower()))
        new_kind = (before.isalpha() and here.isdigit()) or (before.isdigit() and here.isalpha())
        parted += f" {here}" if new_case or new_kind else here
    return parted


def carries_words(label_names: Iterable[str]) -> bool:
    """Tell whether the names of a task's labels say something: at least half of them have a word.

    A word has three letters or more, is not merely a word for "label", and can be pronounced. Names that
    are all the same but for their numbers (``class_1``, ``class_2``) tell no labels apart, whatever their
    words.

    Examples
    --------
    >>> carries_words(["greet", "order_status"]), carries_words(["0", "1"]), carries_words(["A17", "class_3"])
    (True, False, False)
    """
    names = list(label_names)
    with_words = []
    for name in names:
        words = [word for word in label_words(name).split() if not word.isdigit()]
        if any(is_spoken(word) for word in words):
            # An abbreviation says nothing by itself, but tells "find ABC fees" from "find XYZ fees"; a single
            # letter is as good as a number.
            with_words.append(tuple(word for word in words if len(word) > 1 or is_spoken(word)))
    # Some names may differ by their numbers alone ("find DL203 fees"): the texts may well have these, too.
    n_different = len(set(with_words))
    return len(with_words) >= LEAST_SHARE * len(names) and n_different >= min(len(names), 2) > 0


def name_as_text(label: str) -> str | None:
    """Return the name of a label as a text for fine-tuning an encoder; None where it carries no words.

    Examples
    --------
    >>> name_as_text("order_status"), name_as_text("A17")
    ('order status', None)
    """
    return label_words(label) if carries_words([label]) else None


def is_spoken(word: str) -> bool:
    """Tell whether a word means something to people, as far as its letters show."""
    if word in SHORT_WORDS:
        return True
    if len(word) < SHORTEST_WORD or word in EMPTY_WORDS:
        # Scripts such as Chinese say with one sign what takes several letters here.
        return word not in EMPTY_WORDS and not word.isascii() and not has_latin(word)
    if not word.isascii() and not has_latin(word):
        return True
    run = longest = 0
    for letter in word:
        run = 0 if letter in VOWELS else run + 1
        longest = max(longest, run)
    return longest <= MOST_CONSONANTS and longest < len(word)


def has_latin(word: str) -> bool:
    """Tell whether a word has letters of the Latin alphabet."""
    return any("a" <= letter <= "z" or "À" <= letter <= "ɏ" for letter in word)


def fine_tune_on_tasks(
    encoder: Encoder,
    tasks: TaskSet,
    *,
    seed: int,
    label_texts: Callable[[str], str | None] | None = name_as_text,
    progress: Progress | None = None,
) -> Encoder:
    """Fine-tune a sentence encoder, or that of a pair, on the tasks that may share and their label names."""
    # Late: both load torch.
    from robusttc.encoders import SentenceEncoder, fine_tune

    sentence = next((part for part in encoder.parts if isinstance(part, SentenceEncoder)), None)
    if sentence is None:
        expected = "encoder 'sentence' or 'both'"
        raise UsageError("only a sentence encoder can be tuned", got=quote(encoder), expected=expected)
    return fine_tune(sentence, tasks.shareable(), seed=seed, label_texts=label_texts, progress=progress)
