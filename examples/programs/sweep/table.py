"""The results of all tasks, the best first: table.py FOLDER"""

import glob
import json
import os
import sys

rows = []
for name in glob.glob(os.path.join(sys.argv[1], "task-*", "result.json")):
    with open(name) as f:
        rows.append((int(os.path.basename(os.path.dirname(name))[len("task-"):]), json.load(f)))
print("task   rate  momentum  width    loss  accuracy")
for task, r in sorted(rows, key=lambda row: (row[1]["loss"], row[0])):
    print(f"{task:4} {r['rate']:6} {r['momentum']:9} {r['width']:6} {r['loss']:7.4f} {r['accuracy']:9.3f}")
