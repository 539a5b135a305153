#: TYPE --region us-east-1 --since 24h => --region us-east-1 --since 24h --endpoint "$endpoint"
#: TYPE tierml market --catalog => unserve; tierml market --catalog
# Files as they lie about, and a cloud that sells in us-east-1 for `prices fetch`.
market() { # YEAR
  echo timestamp,zone,instance_type,product,price
  for ((day = 1; day <= 28; day++)); do
    for ((hour = 0; hour < 24; hour += 6)); do
      printf '%s-%02dT%02d:00:00Z,us-east-1a,c3.xlarge,Linux/UNIX,0.0%d\n' "$1" "$day" "$hour" $((30 + (day * 7 + hour) % 40))
    done
  done
}
{ market 2016-02; market 2016-03 | tail -n +2; } | gzip | tee prices.csv.gz >prices-2016.csv.gz
cat >october.json <<'END'
{"SpotPriceHistory": [
  {"AvailabilityZone": "us-east-1a", "InstanceType": "c3.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.033000", "Timestamp": "2016-10-01T00:00:00+00:00"},
  {"AvailabilityZone": "us-east-1a", "InstanceType": "c3.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.034000", "Timestamp": "2016-10-02T00:00:00+00:00"}]}
END
cat >catalog.csv <<'END'
region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour
us-east-1,c3.xlarge,4,7.5,0.21
END
gunzip <prices.csv.gz >cloud.csv
serve tierml fakecloud --prices cloud.csv --catalog catalog.csv --start 2016-03-20T00:00:00Z
endpoint=$(grep -oE 'http://[0-9.:]+' served.*.log | head -1)
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
#: AFTER
test -s prices-exported.csv -o -s prices.csv
