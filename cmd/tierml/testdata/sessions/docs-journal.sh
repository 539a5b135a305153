#: NEEDS jq
tierml run -y examples/demo.yaml
cp runs/demo-1/journal.jsonl .
