#: NEEDS jq curl sha256sum
#: ACCOUNT gce
#: TYPE tierml plan ratings.yaml => tierml plan ratings.yaml 2>&1 | tee plan.txt
#: TYPE tierml run ratings.yaml => tierml run -y --plain ratings.yaml
#: TYPE --data examples/data/jester5k.csv.gz => --data examples/data/small.csv
played make <<<'test "$*" = build'
cat >types.csv <<'END'
region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour
us-central1,n2-standard-4,4,16,0.194236
us-central1,n2-standard-2,2,8,0.097118
us-central1,n2-standard-8,8,32,0.388472
us-central1,e2-small,2,2,0.016751
us-central1,e2-medium,2,4,0.033503
us-central1,e2-standard-2,2,8,0.067006
END
cat >prices.csv <<'END'
timestamp,zone,instance_type,product,price
2026-01-01T00:00:00Z,us-central1-a,n2-standard-4,Linux/UNIX,0.047
2026-01-01T00:00:00Z,us-central1-b,n2-standard-4,Linux/UNIX,0.047
END
serve tierml fakecloud --provider gce --prices prices.csv --catalog types.csv --start "$(date -u +%FT%TZ)" --speed 1 --set boot=100ms --instance-command "bash guest"
export endpoint=$(grep -oE 'http://[0-9.:]+' served.*.log | head -1)
export instances=$endpoint/compute/v1/projects/my-project-123/zones/us-central1-a/instances port=$(free_port)
mkdir -p terraform/gcp
# The first script of the module's job server, which is a machine of the fake Compute Engine with the labels and the protection that the module gives it.
cat >server.sh <<END
set -e
cd "\$TIERML_HOME"
unset XDG_CONFIG_HOME
token=\$(curl --fail --silent --show-error --header 'Metadata-Flavor: Google' \
  "http://\$GCE_METADATA_HOST/computeMetadata/v1/instance/service-accounts/default/token" | jq --raw-output .access_token)
object=$(jq --null-input --raw-output '$ENV.PROGRAM | ltrimstr("gs://bucket/") | @uri')
curl --fail --silent --show-error --header "Authorization: Bearer \$token" --output tierml \
  "http://$STORAGE_EMULATOR_HOST/storage/v1/b/bucket/o/\$object?alt=media"
echo "$SUM  tierml" | sha256sum --check --strict
chmod 755 tierml
HOME=\$TIERML_HOME exec ./tierml server --directory "\$TIERML_HOME" --listen 127.0.0.1:$port --allow "$endpoint" --allow "$BUCKET"
END
played terraform <<'END'
set -euo pipefail
grep -q bin/tierml terraform/gcp/terraform.tfvars
in=-chdir=terraform/gcp
case "$*" in
"$in init") touch initialised ;;
"$in apply" | "$in apply -var delete_bucket_with_contents=true")
  test -e initialised
  [ "$*" = "$in apply" ] || touch bucket-may-go
  [ -e controller ] || jq --null-input --rawfile script server.sh '{name: "controller-of-yours", machineType: "zones/us-central1-a/machineTypes/e2-small",
      labels: {"tierml-controller-of": "yours", "tierml-role": "controller", "tierml-owner": "you"}, deletionProtection: true,
      disks: [{boot: true, autoDelete: true, initializeParams: {sourceImage: "projects/debian-cloud/global/images/family/debian-12"}}],
      networkInterfaces: [{}], metadata: {items: [{key: "startup-script", value: $script}]}}' |
    curl --fail-with-body --silent --show-error --output made --data @- "$instances"
  echo controller-of-yours >controller ;;
"$in destroy")
  test -e bucket-may-go # there is a model in it
  curl --fail-with-body --silent --show-error --request DELETE "$instances/$(cat controller)" ;;
"$in output -raw controller") cat controller ;;
"$in output -raw settings") cat <<SETTINGS ;;
"gce":
  "checkpoints": "$BUCKET"
  "cluster": "yours"
  "owner": "you"
  "project": "my-project-123"
  "program":
    "sha256": "$SUM"
    "url": "$PROGRAM"
  "region": "us-central1"
  "service_account": "yours-mch@my-project-123.iam.gserviceaccount.com"
  "subnetwork": "projects/my-project-123/regions/us-central1/subnetworks/default"
  "endpoint": "$endpoint"
  "listen": "127.0.0.1:0"
  "controller": {"instance": "$(cat controller)", "zone": "us-central1-a", "port": $port, "type": "e2-small"}
SETTINGS
*) echo "terraform $*: not played" >&2; exit 1 ;;
esac
END
# Identity-Aware Proxy connects to this host, whichever machine is named.
played gcloud <<'END'
set -euo pipefail
machine="compute ssh controller-of-yours --project my-project-123 --zone us-central1-a --tunnel-through-iap --quiet"
case "$*" in
"auth application-default login") ;;
"services enable compute.googleapis.com "*) ;;
"$machine -- -N -o ExitOnForwardFailure=yes -o ServerAliveInterval=15 -L 127.0.0.1:"*)
  IFS=: read -r _ local _ port <<<"${*: -1}"
  exec $TUNNEL controller-of-yours "$local" "$port" ;;
"$machine --command sudo cat /var/lib/tierml/token") cat machines/*/token ;;
"compute instances update controller-of-yours --zone us-central1-a --no-deletion-protection")
  curl --fail-with-body --silent --show-error --request POST "$instances/controller-of-yours/setDeletionProtection?deletionProtection=false" ;;
*) echo "gcloud $*: not played" >&2; exit 1 ;;
esac
END
#: AFTER
grep -E '^budget: *[$]?5\b' ratings.yaml
tr -s ' \n' ' ' <plan.txt >words.txt
grep -q 'Compute Engine has the machine types of all' words.txt
grep -q 'On-demand prices: Cloud Billing Catalog of us-central1, asked ' words.txt
# The model is here, and no machine is left.
test -s runs/ratings-1/model.safetensors
curl --fail --silent "$endpoint/_control/instances" | jq -e 'length > 2 and all(.[]; .state == "terminated" or .state == "shutting-down")'
unserve
