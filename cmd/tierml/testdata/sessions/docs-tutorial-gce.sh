#: TYPE tierml doctor ratings.yaml => named_prices; tierml doctor ratings.yaml || true
played make <<<'test "$*" = build'
played gcloud <<'END'
case "$1 $2" in "auth application-default" | "services enable") ;; *) exit 1 ;; esac
END
mkdir -p terraform/gcp
sku() { # DESCRIPTION USAGE UNIT NANOS
  printf '{"skuId": "X", "description": "%s", "category": {"resourceFamily": "Compute", "usageType": "%s"}, "serviceRegions": ["us-central1"],
    "pricingInfo": [{"effectiveTime": "2026-01-01T00:00:00Z", "pricingExpression": {"usageUnit": "%s", "tieredRates": [{"unitPrice": {"currencyCode": "USD", "units": "0", "nanos": %d}}]}}]}' "$@"
}
{
  echo '{"skus": ['
  sku "N2 Instance Core running in Iowa" OnDemand h 31611000; echo ,
  sku "N2 Instance Ram running in Iowa" OnDemand GiBy.h 4237000; echo ,
  sku "Spot Preemptible N2 Instance Core running in Iowa" Preemptible h 7650000; echo ,
  sku "Spot Preemptible N2 Instance Ram running in Iowa" Preemptible GiBy.h 1020000
  echo ']}'
} >skus.json
serve tierml fakecloud --provider gce --prices examples/data/gce-us-central1-n2.csv --catalog examples/data/gce-us-central1-n2-ondemand.csv
endpoint=$(grep -oE 'http://[0-9.:]+' served.*.log | head -1)
export endpoint
played terraform <<'END'
case "$*" in
*\ init | *\ apply | *\ apply\ -var\ delete_bucket_with_contents=true | *\ destroy) grep -q bin/tierml terraform/gcp/terraform.tfvars ;;
*"output -raw controller") echo controller ;;
*"output -raw settings") cat <<SETTINGS ;;
"gce":
  "checkpoints": "gs://bucket/checkpoints"
  "cluster": "yours"
  "owner": "you"
  "project": "my-project-123"
  "program":
    "sha256": "7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730"
    "url": "gs://bucket/program/tierml"
  "region": "us-central1"
  "service_account": "tierml-mch@my-project-123.iam.gserviceaccount.com"
  "subnetwork": "projects/my-project-123/regions/us-central1/subnetworks/tierml"
  "endpoint": "$endpoint"
SETTINGS
*) echo "terraform $*: not played" >&2; exit 1 ;;
esac
END
# What the page asks for in words.
named_prices() { sed -i 's,^gce:.*,&\n  prices: prices.db,' ratings.yaml; }
#: AFTER
unserve
