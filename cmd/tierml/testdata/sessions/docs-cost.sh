sed 's/^name: demo/name: ratings/' examples/demo.yaml >examples/ratings.yaml
tierml run -y examples/ratings.yaml
# The provider's record: what the cloud's own bill has, in the form of Amazon's.
{
  echo lineItem/ResourceId,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/UnblendedCost
  tierml report ratings-1 -o json | grep -q '"instances"'
  echo i-of-others,2014-04-12T00:00:00Z,2014-04-12T01:00:00Z,3
} | gzip >cost-and-usage.csv.gz
