"""Makes the same texts to classify every time: files.py FOLDER NUMBER"""

import os
import random
import sys

from classify import LETTERS

folder, number = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
for i in range(number):
    chance = random.Random(i)
    language = sorted(LETTERS)[i % len(LETTERS)]
    letters, weights = zip(*LETTERS[language].items())
    with open(os.path.join(folder, f"{i:04}-{language}.txt"), "w") as f:
        f.write("".join(chance.choices(letters, weights, k=2000)))
