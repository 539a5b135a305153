#: NEEDS jq
#: TYPE tierml doctor ratings.yaml => tierml doctor ratings.yaml || true
#: TYPE tierml plan ratings.yaml => tierml plan ratings.yaml 2>&1 | tee plan.txt
#: TYPE aws iam create-service-linked-role => played_iam
#: TYPE --hours 4 => --hours 4 --starts 20
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_EC2_METADATA_DISABLED=true
played_iam() { test "$*" = "--aws-service-name spot.amazonaws.com"; }
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
serve tierml fakecloud --prices prices.csv --catalog types.csv --rules ec2-now --start "$(date -u +%FT%TZ)"
endpoint=$(grep -oE 'http://[0-9.:]+' served.*.log | head -1)
mkdir -p terraform/aws
export endpoint
played terraform <<'END'
case "$*" in
*\ init | *\ apply | *\ apply\ -var\ delete_bucket_with_contents=true | *\ destroy) grep -q bin/tierml terraform/aws/terraform.tfvars ;;
*"output -raw controller") echo controller ;;
*"output -raw settings") cat <<SETTINGS ;;
"ec2":
  "checkpoints": "s3://bucket/checkpoints"
  "cluster": "yours"
  "image": "ami-0123456789abcdef0"
  "program":
    "sha256": "7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730"
    "url": "s3://bucket/program/tierml"
  "region": "us-west-2"
  "endpoint": "$endpoint"
SETTINGS
*) echo "terraform $*: not played" >&2; exit 1 ;;
esac
END
#: AFTER
grep -E '^budget: *[$]?5\b' ratings.yaml
tr -s ' \n' ' ' <plan.txt >words.txt
grep -q 'EC2 would launch machines' words.txt
grep -q 'On-demand prices: AWS Price List of us-west-2, asked ' words.txt
# The reliable tier that the plan chooses costs at most 2 % of the fleet on demand.
tierml plan ratings.yaml -o json | jq -e '(.reliable[0].usd_per_hour | tonumber) * .on_demand.hours <= 0.02 * (.on_demand.usd | tonumber)'
unserve
