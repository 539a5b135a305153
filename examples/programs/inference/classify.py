"""Detects a text's language from its letters: classify.py FOLDER RESULTS. Each task has its share of the files."""

import collections
import math
import os
import sys
import time

import tierml

# Percent of the letters of a text; sources differ by some tenths.
LETTERS = {
    "english": {"e": 12.7, "t": 9.1, "a": 8.2, "o": 7.5, "i": 7.0, "n": 6.7, "s": 6.3, "h": 6.1, "r": 6.0, "d": 4.3, "l": 4.0, "u": 2.8},
    "german": {"e": 16.4, "n": 9.8, "s": 7.3, "r": 7.0, "i": 6.6, "a": 6.5, "t": 6.2, "d": 5.1, "h": 4.6, "u": 4.2, "l": 3.4, "o": 2.6},
    "spanish": {"e": 12.2, "a": 11.5, "o": 8.7, "s": 8.0, "n": 6.7, "r": 6.9, "i": 6.2, "l": 5.0, "d": 5.0, "t": 4.6, "u": 2.9, "h": 0.7},
    "italian": {"e": 11.8, "a": 11.7, "i": 10.1, "o": 9.8, "n": 6.9, "l": 6.5, "r": 6.4, "t": 5.6, "s": 5.0, "d": 3.7, "u": 3.0, "h": 0.6},
}


def classify(text: str) -> str:
    counts = collections.Counter(text)

    def score(language: str) -> float:
        total = sum(LETTERS[language].values())
        return sum(n * math.log(LETTERS[language].get(letter, 0.01) / total) for letter, n in counts.items())

    return max(sorted(LETTERS), key=score)


def main(folder: str, results: str) -> None:
    names = [n for i, n in enumerate(sorted(os.listdir(folder))) if i % (tierml.tasks() or 1) == (tierml.task() or 0)]
    for done, name in enumerate(names, 1):
        result = os.path.join(results, name)
        if not os.path.exists(result):  # another machine may have done it
            with open(os.path.join(folder, name)) as f:
                language = classify(f.read())
            time.sleep(0.3)  # a real model takes longer
            with open(result + ".tmp", "w") as f:
                f.write(language + "\n")
            os.replace(result + ".tmp", result)
        print(f"file {done} of {len(names)}: {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
