# A run's model, and a file of the same kind of data without ratings.
cat >few.yaml <<'EOF'
name: few
cloud: none
train: {app: mf, data: few.csv, clocks: 5, splits: 2}
EOF
printf 'user,item,rating\n1,1,5\n1,2,3\n2,1,4\n2,2,1\n3,1,5\n3,2,2\n4,1,4\n4,2,2\n' >few.csv
printf 'user,item\n1,2\n9,1\n' >new.csv
mkdir -p runs/demo-1
tierml train few.yaml --into runs/demo-1/model.safetensors
#: AFTER
test "$(wc -l <predictions.csv)" = 3
grep -q '^user,item,prediction$' predictions.csv
grep -q '^9,1,$' predictions.csv
