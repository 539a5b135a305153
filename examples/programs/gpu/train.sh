# Counts steps in place of training; its state is the last one.
nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || echo "no GPU here: on the processor"
step=$(cat "$TIERML_STATE/step" 2>/dev/null || echo 0)
while [ "$step" -lt 300 ]; do
  step=$((step + 1))
  sleep 0.02
  echo "$step" >"$TIERML_STATE/step.tmp"
  mv "$TIERML_STATE/step.tmp" "$TIERML_STATE/step"
  echo "step $step"
done
