"""Calls with which clients of EC2 begin, typed as their authors would: python3 clients.py ENDPOINT"""

import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

ENDPOINT = sys.argv[1]


def client(service):
    return boto3.client(service, region_name="us-west-1", endpoint_url=ENDPOINT, aws_access_key_id="any", aws_secret_access_key="any",
                        config=Config(retries={"max_attempts": 0}))


ec2 = client("ec2")


def refused(code, call, **parameters):
    try:
        call(**parameters)
    except ClientError as e:
        assert e.response["Error"]["Code"] == code, e
        return
    raise AssertionError(f"{parameters} was not refused with {code}")


def states(ids):
    return [i["State"]["Name"] for r in ec2.describe_instances(InstanceIds=ids)["Reservations"] for i in r["Instances"]]


# Who am I, and what may I have?
assert client("sts").get_caller_identity()["Account"] == "000000000000"
quotas = {q["QuotaCode"]: q["Value"] for q in client("service-quotas").list_service_quotas(ServiceCode="ec2")["Quotas"]}
assert quotas["L-1216C47A"] == 4.0 and quotas["L-34B43A08"] == 1e6 and len(quotas) == 7, quotas
assert client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode="L-1216C47A")["Quota"]["Value"] == 4.0
refused("NoSuchResourceException", client("service-quotas").get_service_quota, ServiceCode="ec2", QuotaCode="L-0")

# The network.
(vpc,) = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}])["Subnets"]
zones = ec2.describe_availability_zones()["AvailabilityZones"]
assert sorted(s["AvailabilityZone"] for s in subnets) == sorted(z["ZoneName"] for z in zones) and all(s["DefaultForAz"] for s in subnets)
assert ec2.describe_subnets(SubnetIds=[subnets[0]["SubnetId"]])["Subnets"] == [subnets[0]]
assert ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": ["nowhere"]}])["Subnets"] == []
refused("InvalidSubnetID.NotFound", ec2.describe_subnets, SubnetIds=["subnet-0123456789abcdef0"])
refused("InvalidParameterValue", ec2.describe_subnets, Filters=[{"Name": "colour", "Values": ["red"]}])
(table,) = ec2.describe_route_tables(Filters=[{"Name": "association.main", "Values": ["true"]}])["RouteTables"]
assert [r["GatewayId"][:4] for r in table["Routes"]] == ["loca", "igw-"]
assert ec2.describe_internet_gateways(Filters=[{"Name": "attachment.vpc-id", "Values": [vpc["VpcId"]]}])["InternetGateways"]
ec2.create_tags(Resources=[vpc["VpcId"], subnets[0]["SubnetId"]], Tags=[{"Key": "karpenter.sh/discovery", "Value": "x"}])
assert len(ec2.describe_subnets(Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["x"]}])["Subnets"]) == 1
assert {t["ResourceType"] for t in ec2.describe_tags(Filters=[{"Name": "key", "Values": ["karpenter*"]}])["Tags"]} == {"vpc", "subnet"}
ec2.delete_tags(Resources=[vpc["VpcId"]], Tags=[{"Key": "karpenter.sh/discovery"}])
assert ec2.describe_vpcs(Filters=[{"Name": "tag-key", "Values": ["karpenter*"]}])["Vpcs"] == []

# Groups, keys, images, types.
(default,) = ec2.describe_security_groups(GroupNames=["default"])["SecurityGroups"]
group = ec2.create_security_group(GroupName="workers", Description="of a test", VpcId=vpc["VpcId"])["GroupId"]
refused("InvalidGroup.Duplicate", ec2.create_security_group, GroupName="workers", Description="again")
ssh = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
among = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[ssh, among])
refused("InvalidPermission.Duplicate", ec2.authorize_security_group_ingress, GroupId=group, IpPermissions=[ssh])
(found,) = ec2.describe_security_groups(Filters=[{"Name": "ip-permission.from-port", "Values": ["22"]}])["SecurityGroups"]
assert found["GroupId"] == group and len(found["IpPermissions"]) == 2
ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=[ssh])
refused("InvalidPermission.NotFound", ec2.revoke_security_group_ingress, GroupId=group, IpPermissions=[ssh])
refused("CannotDelete", ec2.delete_security_group, GroupId=default["GroupId"])
key = ec2.create_key_pair(KeyName="mine", KeyType="ed25519", TagSpecifications=[{"ResourceType": "key-pair", "Tags": [{"Key": "a", "Value": "b"}]}])
assert key["KeyMaterial"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
(listed,) = ec2.describe_key_pairs(Filters=[{"Name": "tag:a", "Values": ["b"]}], IncludePublicKey=True)["KeyPairs"]
assert listed["KeyFingerprint"] == key["KeyFingerprint"] and listed["PublicKey"].startswith("ssh-ed25519 ")
ec2.import_key_pair(KeyName="theirs", PublicKeyMaterial=listed["PublicKey"].encode())
refused("InvalidKeyPair.Duplicate", ec2.import_key_pair, KeyName="theirs", PublicKeyMaterial=listed["PublicKey"].encode())
refused("InvalidKey.Format", ec2.import_key_pair, KeyName="broken", PublicKeyMaterial=b"ssh-rsa x")
ec2.delete_key_pair(KeyName="theirs")
refused("InvalidKeyPair.NotFound", ec2.describe_key_pairs, KeyNames=["theirs"])
(image,) = ec2.describe_images(Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"]
assert ec2.describe_images(Owners=["self"])["Images"] == []
(brought,) = ec2.describe_images(Owners=["142421590066"], Filters=[{"Name": "name", "Values": ["dstack-0.14", "dstack-*"]}])["Images"]
assert (brought["Name"], brought["OwnerId"], brought["State"]) == ("dstack-0.14", "142421590066", "available"), brought
(ubuntu,) = ec2.describe_images(Owners=["099720109477"], Filters=[{"Name": "name", "Values": ["ubuntu-22.04-*"]}])["Images"]
assert ubuntu["Name"] == "ubuntu-22.04-1", ubuntu
public = client("ssm").get_parameter(Name="/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64")["Parameter"]["Value"]
assert ec2.describe_images(ImageIds=[public])["Images"][0]["Architecture"] == "x86_64"
refused("ParameterNotFound", client("ssm").get_parameter, Name="/mine")
refused("InvalidAMIID.NotFound", ec2.describe_images, ImageIds=["ami-0123456789abcdef0"])
offers = ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["c3.*"]}])
assert len(offers["InstanceTypeOfferings"]) == len(zones)

# Start and stop.
where = {"ImageId": image["ImageId"], "InstanceType": "c3.xlarge", "SubnetId": subnets[0]["SubnetId"], "KeyName": "mine", "SecurityGroupIds": [group]}
refused("InvalidKeyPair.NotFound", ec2.run_instances, **where | {"KeyName": "theirs"}, MinCount=1, MaxCount=1)
(machine,) = ec2.run_instances(**where, MinCount=1, MaxCount=1)["Instances"]
assert machine["SubnetId"] == subnets[0]["SubnetId"] and machine["VpcId"] == vpc["VpcId"] and machine["SecurityGroups"][0]["GroupName"] == "workers"
ids = [machine["InstanceId"]]
ec2.get_waiter("instance_running").wait(InstanceIds=ids, WaiterConfig={"Delay": 0.02})
ec2.get_waiter("instance_status_ok").wait(InstanceIds=ids, WaiterConfig={"Delay": 0.02})
(disk,) = ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": ids}])["Volumes"]
assert ec2.describe_instance_attribute(InstanceId=ids[0], Attribute="instanceType")["InstanceType"]["Value"] == "c3.xlarge"
assert ec2.describe_instance_attribute(InstanceId=ids[0], Attribute="userData")["UserData"] == {}
assert not ec2.describe_instance_attribute(InstanceId=ids[0], Attribute="disableApiTermination")["DisableApiTermination"]["Value"]
refused("Unsupported", ec2.describe_instance_attribute, InstanceId=ids[0], Attribute="kernel")
assert ec2.modify_instance_metadata_options(InstanceId=ids[0], HttpTokens="required")["InstanceMetadataOptions"]["State"] == "applied"
refused("Unsupported", ec2.modify_instance_metadata_options, InstanceId=ids[0], HttpTokens="optional")
assert ec2.describe_placement_groups()["PlacementGroups"] == [] and ec2.describe_addresses(Filters=[{"Name": "instance-id", "Values": ids}])["Addresses"] == []
refused("DependencyViolation", ec2.delete_security_group, GroupId=group)
ec2.modify_instance_attribute(InstanceId=ids[0], Groups=[default["GroupId"], group])
ec2.modify_instance_attribute(InstanceId=ids[0], DisableApiTermination={"Value": True})
refused("OperationNotPermitted", ec2.terminate_instances, InstanceIds=ids)
ec2.modify_instance_attribute(InstanceId=ids[0], Attribute="disableApiTermination", Value="false")
refused("InvalidParameterCombination", ec2.modify_instance_attribute, InstanceId=ids[0], Attribute="kernel", Value="false")
ec2.stop_instances(InstanceIds=ids)
ec2.get_waiter("instance_stopped").wait(InstanceIds=ids, WaiterConfig={"Delay": 0.02})
assert ec2.describe_instance_status(InstanceIds=ids[:0])["InstanceStatuses"] == []
ec2.start_instances(InstanceIds=ids)
ec2.get_waiter("instance_running").wait(InstanceIds=ids, WaiterConfig={"Delay": 0.02})
ec2.terminate_instances(InstanceIds=ids)
ec2.get_waiter("instance_terminated").wait(InstanceIds=ids, WaiterConfig={"Delay": 0.02})
refused("IncorrectInstanceState", ec2.start_instances, InstanceIds=ids)
ec2.delete_security_group(GroupId=group)

# Spot requests: one is filled, one waits for a price and is cancelled.
wish = {"ImageId": image["ImageId"], "InstanceType": "c3.xlarge"}
(filled,) = ec2.request_spot_instances(SpotPrice="0.10", LaunchSpecification=wish)["SpotInstanceRequests"]
ec2.get_waiter("spot_instance_request_fulfilled").wait(SpotInstanceRequestIds=[filled["SpotInstanceRequestId"]], WaiterConfig={"Delay": 0.02})
(waits,) = ec2.request_spot_instances(SpotPrice="0.01", LaunchSpecification=wish)["SpotInstanceRequests"]
assert (waits["State"], waits["Status"]["Code"]) == ("open", "price-too-low"), waits
ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[waits["SpotInstanceRequestId"]])
(gone,) = ec2.describe_spot_instance_requests(Filters=[{"Name": "state", "Values": ["cancelled"]}])["SpotInstanceRequests"]
assert gone["Status"]["Code"] == "canceled-before-fulfillment"
spot = [filled["InstanceId"]]
refused("UnsupportedOperation", ec2.stop_instances, InstanceIds=spot)

# Fault injection takes it back.
fis = client("fis")
assert fis.list_experiments()["experiments"] == []
target = {"resourceType": "aws:ec2:spot-instance", "selectionMode": "ALL", "resourceArns": [f"arn:aws:ec2:us-west-1:000000000000:instance/{spot[0]}"]}
interrupt = {"actionId": "aws:ec2:send-spot-instance-interruptions", "parameters": {"durationBeforeInterruption": "PT2M"}, "targets": {"SpotInstances": "all"}}
template = fis.create_experiment_template(description="take it", stopConditions=[{"source": "none"}], targets={"all": target}, actions={"go": interrupt},
                                          roleArn="arn:aws:iam::000000000000:role/any")["experimentTemplate"]["id"]
started = fis.start_experiment(experimentTemplateId=template)["experiment"]
assert fis.get_experiment(id=started["id"])["experiment"]["state"]["status"] == "completed"
fis.delete_experiment_template(id=template)
refused("ResourceNotFoundException", fis.start_experiment, experimentTemplateId=template)

# A fleet that is maintained replaces what is taken from it.
ec2.create_launch_template(LaunchTemplateName="workers", LaunchTemplateData=wish)
configs = [{"LaunchTemplateSpecification": {"LaunchTemplateName": "workers", "Version": "$Latest"}}]
capacity = {"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "spot"}
fleet = ec2.create_fleet(Type="maintain", LaunchTemplateConfigs=configs, TargetCapacitySpecification=capacity)["FleetId"]
first = {i["InstanceId"] for i in ec2.describe_fleet_instances(FleetId=fleet)["ActiveInstances"]}
assert len(first) == 2
lost = first.pop()
ec2.terminate_instances(InstanceIds=[lost])
now = {i["InstanceId"] for i in ec2.describe_fleet_instances(FleetId=fleet)["ActiveInstances"]}
assert len(now) == 2 and lost not in now and first < now, (first, now)
(shown,) = ec2.describe_fleets(FleetIds=[fleet])["Fleets"]
assert (shown["FulfilledCapacity"], shown["ActivityStatus"]) == (2.0, "fulfilled"), shown
ec2.delete_fleets(FleetIds=[fleet], TerminateInstances=True)
assert not set(states(list(now))) & {"pending", "running"}
refused("InvalidFleetId.NotFound", ec2.describe_fleets, FleetIds=["fleet-none"])
refused("InvalidAction", ec2.create_vpc, CidrBlock="10.0.0.0/16")

print("all answered")
