sed 's/clocks: 40,/clocks: 20000,/; s/^budget:.*/max_duration: 10000h/; s/speed: 720/speed: 60/; s/count: 3/count: 4/' examples/demo.yaml >examples/long.yaml
tierml run -y examples/demo.yaml
long() { tierml run -y examples/long.yaml >long.log 2>&1 & until_true grep -q '"kind":"clock"' runs/demo-2/journal.jsonl; }
long
#: TYPE tierml drill demo => tierml drill --within 2m demo
#: AFTER
tierml stop demo-2 --now
