# Counts to STEPS, with its state in one file; `loss` falls with RATE.
mkdir -p "$TIERML_STATE"
at=$(cat "$TIERML_STATE/at" 2>/dev/null || echo 0)
echo "starts at $at, resumed $TIERML_RESUMED"
trap 'exit 0' TERM
while [ "$at" -lt "${STEPS:-30}" ]; do
  sleep 0.1
  at=$((at + 1))
  echo "$at" >"$TIERML_STATE/at.tmp" && mv "$TIERML_STATE/at.tmp" "$TIERML_STATE/at"
  echo "step $at loss 0.${RATE:-5}"
done
