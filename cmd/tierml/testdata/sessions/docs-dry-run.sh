# Twelve days of prices that go up and down, a recording of machines that could be had, and a job on them.
market() { # TYPE...
  echo timestamp,zone,instance_type,product,price
  for kind in "$@"; do
    for ((day = 1; day <= 12; day++)); do
      for ((hour = 0; hour < 24; hour += 3)); do
        printf '2016-03-%02dT%02d:00:00Z,us-east-1a,%s,Linux/UNIX,0.%d\n' "$day" "$hour" "$kind" \
          $((100 + (day * 7 + hour * 13 + ${#kind}) % 90 + (day % 9 == 0 ? 700 : 0)))
      done
    done
  done
}
market d2.xlarge d2.2xlarge | gzip >a.csv.gz
market c3.xlarge | gzip >b.csv.gz
cat >types.csv <<'END'
region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour
us-east-1,d2.xlarge,4,30.5,0.69
us-east-1,d2.2xlarge,8,61,1.38
us-east-1,c3.xlarge,4,7.5,0.21
END
sed 's/zones: .*/zones: [us-east-1a]/; s/any_of: .*/any_of: [{type: c3.xlarge}, {type: d2.xlarge}]/; s,data/,examples/data/,; s/start: .*/start: 2016-03-10T00:00:00Z/
  s/prices: .*/prices: b.csv.gz/; s/catalog: .*/catalog: types.csv/' examples/demo.yaml >job.yaml
ticks=$(for ((i = 0; i < 400; i++)); do printf '%d,' $((i % 7 > 1)); done)
echo '{"metadata": {"gap_seconds": 600}, "data": ['"${ticks%,}"']}' | gzip >us-west-2a_v100_1.json.gz
cp us-west-2a_v100_1.json.gz a.json.gz
#: TYPE --starts 200 => --starts 20
#: TYPE --starts 500 => --starts 20
#: AFTER
grep -qi '<!doctype html>' run.html
