#: NEEDS jq curl sha256sum
#: ACCOUNT ec2
#: TYPE tierml plan ratings.yaml => tierml plan ratings.yaml 2>&1 | tee plan.txt
#: TYPE tierml run ratings.yaml => tierml run -y --plain ratings.yaml
#: TYPE --hours 4 => --hours 4 --starts 5 --policy tierml,checkpoint
#: TYPE --data examples/data/jester5k.csv.gz => --data examples/data/small.csv
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
played make <<<'test "$*" = build'
cat >types.csv <<'END'
region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour
us-west-2,c5.xlarge,4,8,0.17
us-west-2,m5.xlarge,4,16,0.192
us-west-2,t3.micro,2,1,0.0104
us-west-2,t3.small,2,2,0.0208
us-west-2,t3.medium,2,4,0.0416
us-west-2,t3.large,2,8,0.0832
us-west-2,m5.large,2,8,0.096
us-west-2,m5.2xlarge,8,32,0.384
us-west-2,r5.large,2,16,0.126
us-west-2,r5.xlarge,4,32,0.252
us-west-2,r5.2xlarge,8,64,0.504
us-west-2,r5.4xlarge,16,128,1.008
END
{
  echo timestamp,zone,instance_type,product,price
  for ((day = 30; day >= -1; day--)); do
    for kind in c5.xlarge m5.xlarge; do
      for zone in us-west-2a us-west-2b; do echo "$(date -u -d "$day days ago" +%FT00:00:00Z),$zone,$kind,Linux/UNIX,0.0$((50 + day % 7))"; done
    done
  done
} >prices.csv
serve tierml fakecloud --prices prices.csv --catalog types.csv --rules ec2-now --start "$(date -u +%FT%TZ)" --speed 1 --set boot=100ms --instance-command "bash guest"
export endpoint=$(grep -oE 'http://[0-9.:]+' served.*.log | head -1)
export image=$(curl --fail --silent "$endpoint" --data 'Action=DescribeImages&Version=2016-11-15' | grep -oE 'ami-[0-9a-f]+' | head -1)
export AWS_EC2_METADATA_DISABLED=true port=$(free_port)
mkdir -p terraform/aws
# The first script of the module's job server, which is a machine of the fake EC2 with the tags and the protection that the module gives it.
cat >server.sh <<END
set -e
cd "\$TIERML_HOME"
unset XDG_CONFIG_HOME AWS_EC2_METADATA_DISABLED
curl --fail --silent --show-error --output tierml "$PROGRAM"
echo "$SUM  tierml" | sha256sum --check --strict
chmod 755 tierml
HOME=\$TIERML_HOME exec ./tierml server --directory "\$TIERML_HOME" --listen 127.0.0.1:$port --allow "$endpoint" --allow "${BUCKET##*endpoint=}"
END
played terraform <<'END'
set -euo pipefail
grep -q bin/tierml terraform/aws/terraform.tfvars
ask() { # PARAMETER=VALUE...: a call of EC2
  local one given=(--data Version=2016-11-15)
  for one; do given+=(--data-urlencode "$one"); done
  curl --fail --silent --show-error "$endpoint" "${given[@]}"
}
in=-chdir=terraform/aws
case "$*" in
"$in init") touch initialised ;;
"$in apply" | "$in apply -var delete_bucket_with_contents=true")
  test -e initialised
  [ "$*" = "$in apply" ] || touch bucket-may-go
  [ -e controller ] || ask Action=RunInstances ImageId="$image" InstanceType=t3.small MinCount=1 MaxCount=1 Placement.AvailabilityZone=us-west-2a \
    DisableApiTermination=true UserData="$(base64 -w0 server.sh)" TagSpecification.1.ResourceType=instance TagSpecification.1.Tag.1.Key=tierml:controller-of \
    TagSpecification.1.Tag.1.Value=yours TagSpecification.1.Tag.2.Key=tierml:role TagSpecification.1.Tag.2.Value=controller | grep -oE 'i-[0-9a-f]+' | head -1 >controller ;;
"$in destroy")
  test -e bucket-may-go # there is a model in it
  ask Action=TerminateInstances InstanceId.1="$(cat controller)" >/dev/null ;;
"$in output -raw controller") cat controller ;;
"$in output -raw settings") cat <<SETTINGS ;;
"ec2":
  "checkpoints": "$BUCKET"
  "cluster": "yours"
  "owner": "you"
  "image": "$image"
  "program":
    "sha256": "$SUM"
    "url": "$PROGRAM"
  "region": "us-west-2"
  "endpoint": "$endpoint"
  "listen": "127.0.0.1:0"
  "controller": {"instance": "$(cat controller)", "port": $port, "type": "t3.small"}
SETTINGS
*) echo "terraform $*: not played" >&2; exit 1 ;;
esac
END
# Session Manager connects to this host, whichever machine is named.
played session-manager-plugin <<<true
played aws <<'END'
case "$*" in
"iam create-service-linked-role --aws-service-name spot.amazonaws.com") ;;
"ssm start-session --region us-west-2 --target $(cat controller) --document-name AWS-StartPortForwardingSession --parameters portNumber="*)
  ports=${*: -1} local=${ports##*=} port=${ports%%,*}
  exec $TUNNEL "$(cat controller)" "$local" "${port#portNumber=}" ;;
"ssm start-session --region us-west-2 --target $(cat controller) --document-name tierml-token-yours") cat machines/*/token ;;
"ec2 --region us-west-2 modify-instance-attribute --no-disable-api-termination --instance-id $(cat controller)")
  curl --fail --silent --show-error "$endpoint" --data 'Action=ModifyInstanceAttribute&Version=2016-11-15&DisableApiTermination.Value=false' --data InstanceId="$(cat controller)" >/dev/null ;;
*) echo "aws $*: not played" >&2; exit 1 ;;
esac
END
#: AFTER
grep -E '^budget: *[$]?5\b' ratings.yaml
tr -s ' \n' ' ' <plan.txt >words.txt
grep -q 'EC2 would launch machines' words.txt
grep -Eq 'about [0-9.]+ GB an hour that cross zones' words.txt
grep -q 'On-demand prices: AWS Price List of us-west-2, asked ' words.txt
# The reliable tier that the plan chooses costs at most 2 % of the fleet on demand.
tierml plan ratings.yaml -o json | jq -e '(.reliable[0].usd_per_hour | tonumber) * .on_demand.hours <= 0.02 * (.on_demand.usd | tonumber)'
# The model is here, and no machine is left.
test -s runs/ratings-1/model.safetensors
curl --fail --silent "$endpoint/_control/instances" | jq -e 'length > 2 and all(.[]; .state == "terminated" or .state == "shutting-down")'
unserve
