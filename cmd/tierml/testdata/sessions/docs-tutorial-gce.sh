#: TYPE tierml doctor ratings.yaml => tierml doctor ratings.yaml || true
played make <<<'test "$*" = build'
played gcloud <<'END'
case "$1 $2" in "auth application-default" | "services enable") ;; *) exit 1 ;; esac
END
mkdir -p terraform/gcp
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
#: AFTER
unserve
