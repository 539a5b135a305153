"""Calls that scripts of spot users make, by the libraries' documentation, against tierml fakecloud: strangers_exam.py EC2 COMPUTE-ENGINE

A call is right if its answer passes its check, missing if it is refused with an error that says so, and wrong if its answer differs from the real
cloud's. The exam fails if any call is wrong, or fewer than nine in ten are right.
"""

import base64
import datetime
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ParamValidationError, WaiterError

EC2, GCE = sys.argv[1:3]
results = []  # of (client, call, result, why)


def record(client, name, do, check=bool):
    try:
        answer = do()
        ok = check(answer)
        results.append((client, name, "right" if ok else "wrong", "" if ok else repr(answer)[:120]))
        return answer
    except ParamValidationError:
        raise
    except Exception as e:  # whatever a library raises: the table names it
        code = e.response["Error"]["Code"] if isinstance(e, ClientError) else type(e).__name__
        results.append((client, name, "missing", f"{code}: {e}"[:160]))
        return None


def refused(client, name, code, do):
    def refusal():
        try:
            do()
        except ClientError as e:
            return e.response["Error"]["Code"]
        except Exception as e:
            return str(getattr(e, "code", "")) or type(e).__name__
        return "answered"

    record(client, f"{name} is refused", refusal, lambda got: code in got)


def boto(service, **more):
    return boto3.client(service, region_name="us-west-1", endpoint_url=EC2, aws_access_key_id="any", aws_secret_access_key="any",
                        config=Config(retries={"max_attempts": 0}, **more))


ec2 = boto("ec2")


def call(name, do, check=bool):
    return record("boto3", name, do, check)


def no(name, code, do):
    refused("boto3", name, code, do)


def among(key, *values):
    return [{"Name": key, "Values": list(values)}]


def wait(name, ids):
    ec2.get_waiter(name).wait(InstanceIds=ids, WaiterConfig={"Delay": 0.05, "MaxAttempts": 200})
    return True


def answered(_):
    return True


def machines(answer):
    return [i for r in answer["Reservations"] for i in r["Instances"]]


def ec2_calls():
    # Who, where, how much.
    call("sts.get_caller_identity", lambda: boto("sts").get_caller_identity()["Account"], lambda a: len(a) == 12)
    call("service-quotas.list_service_quotas", lambda: boto("service-quotas").list_service_quotas(ServiceCode="ec2")["Quotas"])
    call("service-quotas.get_service_quota(L-34B43A08)", lambda: boto("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode="L-34B43A08")["Quota"]["Value"])
    call("pricing.get_products", lambda: boto("pricing").get_products(ServiceCode="AmazonEC2", Filters=[
        {"Type": "TERM_MATCH", "Field": "instanceType", "Value": "c3.xlarge"}, {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-1"}])["PriceList"])
    call("describe_regions", lambda: ec2.describe_regions()["Regions"][0]["RegionName"], lambda n: n == "us-west-1")
    call("describe_regions(AllRegions)", lambda: ec2.describe_regions(AllRegions=True)["Regions"])
    call("describe_availability_zones", lambda: ec2.describe_availability_zones()["AvailabilityZones"][0]["State"], lambda s: s == "available")
    call("describe_availability_zones(filter state)", lambda: ec2.describe_availability_zones(Filters=among("state", "available"))["AvailabilityZones"])
    call("describe_account_attributes", lambda: ec2.describe_account_attributes()["AccountAttributes"])
    call("describe_account_attributes(default-vpc)", lambda: ec2.describe_account_attributes(AttributeNames=["default-vpc"])["AccountAttributes"])
    # What is sold.
    history = {"InstanceTypes": ["c3.xlarge"], "ProductDescriptions": ["Linux/UNIX"]}
    call("describe_spot_price_history", lambda: float(ec2.describe_spot_price_history(**history, MaxResults=5)["SpotPriceHistory"][0]["SpotPrice"]))
    call("describe_spot_price_history(zone)", lambda: ec2.describe_spot_price_history(**history, AvailabilityZone="us-west-1a")["SpotPriceHistory"],
         lambda all: all and {p["AvailabilityZone"] for p in all} == {"us-west-1a"})
    call("describe_spot_price_history(times)", lambda: ec2.describe_spot_price_history(**history, StartTime=datetime.datetime(2014, 4, 11), EndTime=datetime.datetime(2014, 4, 11, 12)))
    call("describe_spot_price_history(paginator)", lambda: list(ec2.get_paginator("describe_spot_price_history").paginate(**history, PaginationConfig={"PageSize": 50, "MaxItems": 120})))
    call("describe_spot_price_history(filter)", lambda: ec2.describe_spot_price_history(Filters=among("instance-type", "c3.*"))["SpotPriceHistory"])
    call("describe_instance_types", lambda: ec2.describe_instance_types(InstanceTypes=["c3.xlarge"])["InstanceTypes"][0]["VCpuInfo"]["DefaultVCpus"], lambda n: n == 4)
    call("describe_instance_types(filter)", lambda: ec2.describe_instance_types(Filters=among("supported-usage-class", "spot"))["InstanceTypes"])
    call("describe_instance_types(memory)", lambda: ec2.describe_instance_types(InstanceTypes=["c3.xlarge"])["InstanceTypes"][0]["MemoryInfo"]["SizeInMiB"], lambda n: n == 7680)
    call("describe_instance_types(paginator)", lambda: list(ec2.get_paginator("describe_instance_types").paginate()))
    no("describe_instance_types(unknown)", "InvalidInstanceType", lambda: ec2.describe_instance_types(InstanceTypes=["c3.huge"]))
    call("describe_instance_type_offerings", lambda: ec2.describe_instance_type_offerings(LocationType="availability-zone")["InstanceTypeOfferings"])
    call("describe_instance_type_offerings(filter)", lambda: ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=among("location", "us-west-1a"))["InstanceTypeOfferings"])
    call("get_spot_placement_scores", lambda: ec2.get_spot_placement_scores(InstanceTypes=["c3.xlarge"], TargetCapacity=2, SingleAvailabilityZone=True)["SpotPlacementScores"])
    call("get_spot_placement_scores(region)", lambda: ec2.get_spot_placement_scores(InstanceTypes=["c3.xlarge"], TargetCapacity=2)["SpotPlacementScores"], lambda s: "Region" in s[0])
    needs = {"VCpuCount": {"Min": 4, "Max": 8}, "MemoryMiB": {"Min": 4096}}
    call("get_instance_types_from_instance_requirements", lambda: ec2.get_instance_types_from_instance_requirements(
        ArchitectureTypes=["x86_64"], VirtualizationTypes=["hvm"], InstanceRequirements=needs)["InstanceTypes"])
    # Images and parameters.
    image = call("describe_images(owner)", lambda: ec2.describe_images(Owners=["amazon"])["Images"])[0]["ImageId"]
    call("describe_images(filters)", lambda: ec2.describe_images(Owners=["099720109477"], Filters=among("name", "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-*") + among("state", "available"))["Images"])
    call("describe_images(self)", lambda: ec2.describe_images(Owners=["self"])["Images"], lambda all: all == [])
    call("describe_images(ids)", lambda: ec2.describe_images(ImageIds=[image])["Images"][0]["State"], lambda s: s == "available")
    no("describe_images(unknown)", "InvalidAMIID.NotFound", lambda: ec2.describe_images(ImageIds=["ami-0123456789abcdef0"]))
    call("ssm.get_parameter(public image)", lambda: boto("ssm").get_parameter(Name="/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64")["Parameter"]["Value"], lambda v: v.startswith("ami-"))
    # Network.
    vpc = call("describe_vpcs(default)", lambda: ec2.describe_vpcs(Filters=among("isDefault", "true"))["Vpcs"])
    vpc = vpc[0]["VpcId"] if vpc else ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnet = call("describe_subnets(vpc)", lambda: ec2.describe_subnets(Filters=among("vpc-id", vpc))["Subnets"])[0]["SubnetId"]
    call("describe_subnets(zone)", lambda: ec2.describe_subnets(Filters=among("availability-zone", "us-west-1a"))["Subnets"])
    call("describe_subnets(paginator)", lambda: list(ec2.get_paginator("describe_subnets").paginate()))
    call("describe_route_tables", lambda: ec2.describe_route_tables(Filters=among("vpc-id", vpc))["RouteTables"])
    call("describe_internet_gateways", lambda: ec2.describe_internet_gateways()["InternetGateways"])
    call("describe_security_groups(default)", lambda: ec2.describe_security_groups(Filters=among("group-name", "default") + among("vpc-id", vpc))["SecurityGroups"])
    group = call("create_security_group", lambda: ec2.create_security_group(GroupName="spot", Description="of an exam", VpcId=vpc)["GroupId"])
    ssh = [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0", "Description": "ssh"}]}]
    call("authorize_security_group_ingress", lambda: ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=ssh)["Return"])
    no("authorize_security_group_ingress twice", "InvalidPermission.Duplicate", lambda: ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=ssh))
    call("authorize_security_group_ingress(short)", lambda: ec2.authorize_security_group_ingress(GroupId=group, IpProtocol="tcp", FromPort=80, ToPort=80, CidrIp="10.0.0.0/8")["Return"])
    call("describe_security_group_rules", lambda: ec2.describe_security_group_rules(Filters=among("group-id", group))["SecurityGroupRules"])
    call("revoke_security_group_ingress", lambda: ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=ssh), answered)
    call("describe_network_acls", lambda: ec2.describe_network_acls()["NetworkAcls"])
    call("describe_placement_groups", lambda: ec2.describe_placement_groups()["PlacementGroups"], answered)
    call("describe_addresses", lambda: ec2.describe_addresses()["Addresses"], lambda all: all == [])
    # Keys.
    call("create_key_pair", lambda: ec2.create_key_pair(KeyName="exam")["KeyMaterial"])
    call("create_key_pair(ed25519)", lambda: ec2.create_key_pair(KeyName="exam2", KeyType="ed25519")["KeyPairId"])
    no("create_key_pair twice", "InvalidKeyPair.Duplicate", lambda: ec2.create_key_pair(KeyName="exam"))
    call("describe_key_pairs", lambda: ec2.describe_key_pairs(KeyNames=["exam"])["KeyPairs"])
    call("delete_key_pair", lambda: ec2.delete_key_pair(KeyName="exam2"), answered)
    # On demand.
    what = {"ImageId": image, "InstanceType": "c3.xlarge", "MinCount": 1, "MaxCount": 1}
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "one"}, {"Key": "team", "Value": "a"}]}]
    one = call("run_instances(tags, user data)", lambda: ec2.run_instances(**what, KeyName="exam", SecurityGroupIds=[group], SubnetId=subnet, TagSpecifications=tags, UserData="#!/bin/sh\ntrue\n")["Instances"])
    ids = [one[0]["InstanceId"]]
    call("get_waiter(instance_running)", lambda: wait("instance_running", ids))
    call("get_waiter(instance_status_ok)", lambda: wait("instance_status_ok", ids))
    call("describe_instances(ids)", lambda: machines(ec2.describe_instances(InstanceIds=ids))[0], lambda i: i["State"]["Name"] == "running" and i["PrivateIpAddress"] and i["NetworkInterfaces"] and i["BlockDeviceMappings"])
    call("describe_instances(tag)", lambda: machines(ec2.describe_instances(Filters=among("tag:team", "a"))), lambda all: len(all) == 1)
    call("describe_instances(state and type)", lambda: machines(ec2.describe_instances(Filters=among("instance-state-name", "running") + among("instance-type", "c3.*"))))
    call("describe_instances(paginator)", lambda: list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5})))
    no("describe_instances(unknown)", "InvalidInstanceID.NotFound", lambda: ec2.describe_instances(InstanceIds=["i-0123456789abcdef0"]))
    no("describe_instances(malformed)", "InvalidInstanceID.Malformed", lambda: ec2.describe_instances(InstanceIds=["machine"]))
    call("describe_instance_status", lambda: ec2.describe_instance_status(InstanceIds=ids)["InstanceStatuses"][0]["InstanceStatus"]["Status"], lambda s: s == "ok")
    call("describe_instance_status(all)", lambda: ec2.describe_instance_status(IncludeAllInstances=True)["InstanceStatuses"])
    call("describe_instance_attribute(userData)", lambda: base64.b64decode(ec2.describe_instance_attribute(InstanceId=ids[0], Attribute="userData")["UserData"]["Value"]), lambda d: b"true" in d)
    call("describe_instance_attribute(instanceType)", lambda: ec2.describe_instance_attribute(InstanceId=ids[0], Attribute="instanceType")["InstanceType"]["Value"], lambda v: v == "c3.xlarge")
    call("describe_instance_attribute(termination)", lambda: ec2.describe_instance_attribute(InstanceId=ids[0], Attribute="disableApiTermination")["DisableApiTermination"]["Value"], lambda v: v is False)
    call("modify_instance_attribute(groups)", lambda: ec2.modify_instance_attribute(InstanceId=ids[0], Groups=[group]), answered)
    call("modify_instance_metadata_options", lambda: ec2.modify_instance_metadata_options(InstanceId=ids[0], HttpTokens="required")["InstanceMetadataOptions"]["HttpTokens"], lambda t: t == "required")
    call("get_console_output", lambda: ec2.get_console_output(InstanceId=ids[0])["InstanceId"])
    call("describe_volumes", lambda: ec2.describe_volumes(Filters=among("attachment.instance-id", *ids))["Volumes"], lambda v: len(v) == 1)
    call("describe_network_interfaces", lambda: ec2.describe_network_interfaces(Filters=among("attachment.instance-id", *ids))["NetworkInterfaces"])
    call("create_tags", lambda: ec2.create_tags(Resources=ids, Tags=[{"Key": "stage", "Value": "exam"}]), answered)
    call("describe_tags", lambda: ec2.describe_tags(Filters=among("resource-id", *ids))["Tags"], lambda t: len(t) == 3)
    call("delete_tags", lambda: ec2.delete_tags(Resources=ids, Tags=[{"Key": "stage"}]), answered)
    call("reboot_instances", lambda: ec2.reboot_instances(InstanceIds=ids), answered)
    call("stop_instances", lambda: ec2.stop_instances(InstanceIds=ids)["StoppingInstances"][0]["CurrentState"]["Name"], lambda s: s in ("stopping", "stopped"))
    call("get_waiter(instance_stopped)", lambda: wait("instance_stopped", ids))
    call("start_instances", lambda: ec2.start_instances(InstanceIds=ids)["StartingInstances"])
    wait("instance_running", ids)
    no("run_instances(DryRun)", "DryRunOperation", lambda: ec2.run_instances(**what, DryRun=True))
    no("run_instances(unknown type)", "InvalidParameterValue", lambda: ec2.run_instances(**what | {"InstanceType": "c3.huge"}))
    call("run_instances(ClientToken) twice", lambda: {ec2.run_instances(**what, ClientToken="once")["Instances"][0]["InstanceId"] for _ in range(2)}, lambda i: len(i) == 1)
    no("run_instances(token of another call)", "IdempotentParameterMismatch", lambda: ec2.run_instances(**what | {"MaxCount": 2}, ClientToken="once"))
    call("run_instances(disks)", lambda: ec2.run_instances(**what, BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 50, "VolumeType": "gp3", "DeleteOnTermination": True}}])["Instances"])
    call("run_instances(profile, monitoring, IMDSv2)", lambda: ec2.run_instances(**what, IamInstanceProfile={"Name": "p"}, Monitoring={"Enabled": True}, MetadataOptions={"HttpTokens": "required"}, InstanceInitiatedShutdownBehavior="terminate")["Instances"])
    # Spot.
    market = {"MarketType": "spot"}
    spot = call("run_instances(spot)", lambda: ec2.run_instances(**what, InstanceMarketOptions=market)["Instances"][0])
    wait("instance_running", [spot["InstanceId"]])
    call("run_instances(spot, MaxPrice)", lambda: ec2.run_instances(**what, InstanceMarketOptions=market | {"SpotOptions": {"MaxPrice": "0.20", "SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}})["Instances"][0]["InstanceLifecycle"], lambda c: c == "spot")
    no("run_instances(spot below the price)", "SpotMaxPriceTooLow", lambda: ec2.run_instances(**what, InstanceMarketOptions=market | {"SpotOptions": {"MaxPrice": "0.0001"}}))
    no("run_instances(spot, BlockDurationMinutes)", "", lambda: ec2.run_instances(**what, InstanceMarketOptions=market | {"SpotOptions": {"BlockDurationMinutes": 60}}))
    call("run_instances(spot, persistent, stop)", lambda: ec2.run_instances(**what, InstanceMarketOptions=market | {"SpotOptions": {"SpotInstanceType": "persistent", "InstanceInterruptionBehavior": "stop"}})["Instances"])
    call("describe_instances(spot)", lambda: machines(ec2.describe_instances(Filters=among("instance-lifecycle", "spot"))))
    no("stop_instances(one-time spot)", "UnsupportedOperation", lambda: ec2.stop_instances(InstanceIds=[spot["InstanceId"]]))
    launch = {"ImageId": image, "InstanceType": "c3.xlarge"}
    r = call("request_spot_instances", lambda: ec2.request_spot_instances(LaunchSpecification=launch, InstanceCount=1)["SpotInstanceRequests"][0]["SpotInstanceRequestId"])
    call("get_waiter(spot_instance_request_fulfilled)", lambda: ec2.get_waiter("spot_instance_request_fulfilled").wait(SpotInstanceRequestIds=[r], WaiterConfig={"Delay": 0.05}), answered)
    low = call("request_spot_instances(low)", lambda: ec2.request_spot_instances(SpotPrice="0.001", LaunchSpecification=launch)["SpotInstanceRequests"][0], lambda r: r["Status"]["Code"] == "price-too-low")
    call("request_spot_instances(persistent)", lambda: ec2.request_spot_instances(Type="persistent", LaunchSpecification=launch)["SpotInstanceRequests"])
    call("request_spot_instances(ValidUntil)", lambda: ec2.request_spot_instances(ValidUntil=datetime.datetime(2031, 1, 1), LaunchSpecification=launch)["SpotInstanceRequests"])
    call("request_spot_instances(zone)", lambda: ec2.request_spot_instances(LaunchSpecification=launch | {"Placement": {"AvailabilityZone": "us-west-1a"}})["SpotInstanceRequests"])
    call("describe_spot_instance_requests", lambda: ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[r])["SpotInstanceRequests"][0], lambda q: q["State"] == "active" and q["Status"]["Code"] == "fulfilled")
    call("describe_spot_instance_requests(open)", lambda: ec2.describe_spot_instance_requests(Filters=among("state", "open"))["SpotInstanceRequests"])
    call("cancel_spot_instance_requests", lambda: ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[low["SpotInstanceRequestId"]])["CancelledSpotInstanceRequests"])
    no("describe_spot_instance_requests(unknown)", "InvalidSpotInstanceRequestID", lambda: ec2.describe_spot_instance_requests(SpotInstanceRequestIds=["sir-01234567"]))
    # Templates and fleets.
    call("create_launch_template", lambda: ec2.create_launch_template(LaunchTemplateName="exam", LaunchTemplateData=launch)["LaunchTemplate"]["LatestVersionNumber"], lambda n: n == 1)
    call("create_launch_template_version", lambda: ec2.create_launch_template_version(LaunchTemplateName="exam", SourceVersion="1", LaunchTemplateData={"InstanceType": "c3.2xlarge"})["LaunchTemplateVersion"]["VersionNumber"], lambda n: n == 2)
    call("describe_launch_template_versions", lambda: ec2.describe_launch_template_versions(LaunchTemplateName="exam")["LaunchTemplateVersions"], lambda v: len(v) == 2)
    call("modify_launch_template", lambda: ec2.modify_launch_template(LaunchTemplateName="exam", DefaultVersion="2")["LaunchTemplate"]["DefaultVersionNumber"], lambda n: n == 2)
    call("get_launch_template_data", lambda: ec2.get_launch_template_data(InstanceId=ids[0])["LaunchTemplateData"]["InstanceType"], lambda t: t == "c3.xlarge")
    call("describe_launch_templates", lambda: ec2.describe_launch_templates(LaunchTemplateNames=["exam"])["LaunchTemplates"])
    call("run_instances(template)", lambda: ec2.run_instances(LaunchTemplate={"LaunchTemplateName": "exam", "Version": "1"}, MinCount=1, MaxCount=1)["Instances"])
    template = {"LaunchTemplateSpecification": {"LaunchTemplateName": "exam", "Version": "1"}}
    target = {"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "spot"}

    def fleet(kind="instant", overrides=None, capacity=target, **more):
        return ec2.create_fleet(Type=kind, LaunchTemplateConfigs=[template | ({"Overrides": overrides} if overrides else {})], TargetCapacitySpecification=capacity, **more)

    call("create_fleet(instant)", lambda: fleet()["Instances"][0]["InstanceIds"], lambda i: len(i) == 2)
    call("create_fleet(overrides)", lambda: fleet(overrides=[{"InstanceType": "c3.xlarge"}, {"InstanceType": "c3.2xlarge"}], SpotOptions={"AllocationStrategy": "price-capacity-optimized"})["Instances"])
    call("create_fleet(weights)", lambda: fleet(overrides=[{"InstanceType": "c3.xlarge", "WeightedCapacity": 1}, {"InstanceType": "c3.2xlarge", "WeightedCapacity": 2}])["Instances"])
    call("create_fleet(on demand)", lambda: fleet(capacity={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"})["Instances"])
    call("create_fleet(mixed)", lambda: fleet(capacity={"TotalTargetCapacity": 2, "OnDemandTargetCapacity": 1, "SpotTargetCapacity": 1, "DefaultTargetCapacityType": "spot"})["Instances"], lambda i: len(i) == 2)
    call("create_fleet(InstanceRequirements)", lambda: fleet(overrides=[{"InstanceRequirements": needs}])["Instances"])
    call("create_fleet(CapacityRebalance)", lambda: fleet("maintain", SpotOptions={"MaintenanceStrategies": {"CapacityRebalance": {"ReplacementStrategy": "launch"}}})["FleetId"])
    call("create_fleet(MaxTotalPrice)", lambda: fleet(SpotOptions={"MaxTotalPrice": "5.0"})["Instances"])
    f = call("create_fleet(maintain)", lambda: fleet("maintain")["FleetId"])
    call("describe_fleets", lambda: ec2.describe_fleets(FleetIds=[f])["Fleets"][0]["FleetState"], lambda s: s == "active")
    call("describe_fleet_instances", lambda: ec2.describe_fleet_instances(FleetId=f)["ActiveInstances"], lambda i: len(i) == 2)
    call("describe_fleet_history", lambda: ec2.describe_fleet_history(FleetId=f, StartTime=datetime.datetime(2014, 4, 11))["HistoryRecords"])
    call("modify_fleet", lambda: ec2.modify_fleet(FleetId=f, TargetCapacitySpecification={"TotalTargetCapacity": 3})["Return"])
    call("delete_fleets", lambda: ec2.delete_fleets(FleetIds=[f], TerminateInstances=True)["SuccessfulFleetDeletions"])
    role = "arn:aws:iam::000000000000:role/fleet"
    s = call("request_spot_fleet", lambda: ec2.request_spot_fleet(SpotFleetRequestConfig={"IamFleetRole": role, "TargetCapacity": 1, "LaunchSpecifications": [launch]})["SpotFleetRequestId"])
    call("describe_spot_fleet_requests", lambda: ec2.describe_spot_fleet_requests()["SpotFleetRequestConfigs"])
    call("cancel_spot_fleet_requests", lambda: ec2.cancel_spot_fleet_requests(SpotFleetRequestIds=[s or "sfr-0"], TerminateInstances=True))
    call("delete_launch_template", lambda: ec2.delete_launch_template(LaunchTemplateName="exam")["LaunchTemplate"])
    # A drill, and the end.
    fis = boto("fis")
    call("fis.list_experiments", lambda: fis.list_experiments()["experiments"], answered)
    call("cloudwatch.get_metric_statistics", lambda: boto("cloudwatch").get_metric_statistics(Namespace="AWS/EC2", MetricName="CPUUtilization", StartTime=datetime.datetime(2014, 4, 11), EndTime=datetime.datetime(2014, 4, 12), Period=300), answered)
    call("create_volume", lambda: ec2.create_volume(AvailabilityZone="us-west-1a", Size=10)["VolumeId"])
    call("allocate_address", lambda: ec2.allocate_address(Domain="vpc")["AllocationId"])
    no("terminate_instances(unknown)", "InvalidInstanceID.NotFound", lambda: ec2.terminate_instances(InstanceIds=["i-0123456789abcdef0"]))
    call("terminate_instances", lambda: ec2.terminate_instances(InstanceIds=ids)["TerminatingInstances"])
    call("get_waiter(instance_terminated)", lambda: wait("instance_terminated", ids))
    call("delete_security_group", lambda: ec2.delete_security_group(GroupId=group), answered)
    no("an unknown filter", "InvalidParameterValue", lambda: ec2.describe_instances(Filters=among("colour", "red")))


def gce_calls():
    from google.api_core.client_options import ClientOptions
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import compute_v1 as c

    def api(kind):
        return getattr(c, kind)(credentials=AnonymousCredentials(), client_options=ClientOptions(api_endpoint=GCE))

    def call(name, do, check=bool):
        return record("google-cloud-compute", name, do, check)

    def no(name, code, do):
        refused("google-cloud-compute", name, code, do)

    p, z, reg = "any", "us-central1-a", "us-central1"
    at = {"project": p, "zone": z}
    vms, ops = api("InstancesClient"), api("ZoneOperationsClient")

    def done(operation):  # by hand: the client's own polling does not know its endpoint
        end = ops.wait(**at, operation=operation.name)
        if end.error.errors:
            raise RuntimeError(end.error.errors[0].code)
        return end.status == c.Operation.Status.DONE

    def vm(name, **scheduling):
        return c.Instance(name=name, machine_type=f"zones/{z}/machineTypes/n2-standard-4", labels={"team": "a"},
                          disks=[c.AttachedDisk(boot=True, auto_delete=True, initialize_params=c.AttachedDiskInitializeParams(source_image="projects/debian-cloud/global/images/family/debian-12", disk_size_gb=20))],
                          network_interfaces=[c.NetworkInterface(network="global/networks/default")], **({"scheduling": c.Scheduling(**scheduling)} if scheduling else {}))

    def insert(name, **scheduling):
        return done(vms.insert_unary(**at, instance_resource=vm(name, **scheduling)))

    for name, kind, one in [("zones", "ZonesClient", {"zone": z}), ("regions", "RegionsClient", {"region": reg})]:
        call(f"{name}.list", lambda: [o.name for o in api(kind).list(project=p)])
        call(f"{name}.list(filter)", lambda: list(api(kind).list(request={"project": p, "filter": f"name = {list(one.values())[0]}"})), lambda all: len(all) == 1)
        call(f"{name}.get", lambda: api(kind).get(project=p, **one).status, lambda s: s == "UP")
    call("regions.get quotas", lambda: [q.metric for q in api("RegionsClient").get(project=p, region=reg).quotas], lambda q: "INSTANCES" in q)
    call("zones.get region", lambda: api("ZonesClient").get(project=p, zone=z).region, lambda r: r.endswith(reg))
    call("projects.get", lambda: api("ProjectsClient").get(project=p).name)
    types = api("MachineTypesClient")
    call("machineTypes.list", lambda: [t.name for t in types.list(**at)])
    call("machineTypes.list(filter cpus)", lambda: list(types.list(request=at | {"filter": "guestCpus = 4"})))
    call("machineTypes.get", lambda: types.get(**at, machine_type="n2-standard-4"), lambda t: t.guest_cpus == 4 and t.memory_mb == 16384)
    call("machineTypes.aggregatedList", lambda: list(types.aggregated_list(project=p)))
    no("machineTypes.get(unknown)", "404", lambda: types.get(**at, machine_type="n2-huge"))
    images = api("ImagesClient")
    call("images.get_from_family", lambda: images.get_from_family(project="debian-cloud", family="debian-12").self_link)
    call("images.get", lambda: images.get(project="debian-cloud", image="debian-12-bookworm-v20260101").status, lambda s: s == "READY")
    call("images.list", lambda: list(images.list(project="debian-cloud")))
    call("images.list(family)", lambda: [i.family for i in images.list(request={"project": "debian-cloud", "filter": "family = debian-12"})], lambda f: f == ["debian-12"])
    call("networks.list", lambda: [n.name for n in api("NetworksClient").list(project=p)])
    call("networks.get", lambda: api("NetworksClient").get(project=p, network="default").name)
    call("subnetworks.list", lambda: list(api("SubnetworksClient").list(project=p, region=reg)))
    call("firewalls.list", lambda: list(api("FirewallsClient").list(project=p)), answered)
    call("disks.list", lambda: list(api("DisksClient").list(**at)), answered)
    call("diskTypes.list", lambda: list(api("DiskTypesClient").list(**at)))
    call("acceleratorTypes.list", lambda: list(api("AcceleratorTypesClient").list(**at)), answered)
    call("instances.insert", lambda: insert("plain"), answered)
    call("instances.insert(SPOT)", lambda: insert("spot", provisioning_model="SPOT", instance_termination_action="DELETE"), answered)
    call("instances.insert(SPOT, STOP)", lambda: insert("spot-stop", provisioning_model="SPOT", instance_termination_action="STOP"), answered)
    call("instances.insert(preemptible)", lambda: insert("old", preemptible=True, automatic_restart=False, on_host_maintenance="TERMINATE"), answered)
    call("instances.insert(max_run_duration)", lambda: insert("short", provisioning_model="SPOT", instance_termination_action="DELETE", max_run_duration=c.Duration(seconds=360000)), answered)
    no("instances.insert(same name)", "409", lambda: insert("plain"))
    no("instances.insert(no name)", "400", lambda: insert("Bad_Name"))
    call("instances.insert(request id) twice", lambda: {vms.insert_unary(request=c.InsertInstanceRequest(**at, instance_resource=vm("once"), request_id="5f6f4d52-5f3b-4a8a-9c5d-000000000001")).name for _ in range(2)}, lambda n: len(n) == 1)
    call("instances.get", lambda: vms.get(**at, instance="plain"), lambda i: i.status in ("PROVISIONING", "STAGING", "RUNNING") and i.labels["team"] == "a" and i.network_interfaces and i.disks)
    call("instances.get scheduling", lambda: vms.get(**at, instance="spot").scheduling, lambda s: s.provisioning_model == "SPOT" and s.instance_termination_action == "DELETE")
    no("instances.get(unknown)", "404", lambda: vms.get(**at, instance="nobody"))
    call("instances.list", lambda: [i.name for i in vms.list(**at)], lambda n: "plain" in n)
    call("instances.list(label)", lambda: list(vms.list(request=at | {"filter": "labels.team = a"})))
    call("instances.list(label, colon)", lambda: list(vms.list(request=at | {"filter": "labels.team:*"})))
    call("instances.list(status and name)", lambda: list(vms.list(request=at | {"filter": '(status = "RUNNING") (name = "plain")'})), answered)
    call("instances.list(scheduling)", lambda: [i.name for i in vms.list(request=at | {"filter": "scheduling.provisioningModel = SPOT"})], lambda n: "spot" in n and "plain" not in n)
    no("instances.list(unknown field)", "400", lambda: list(vms.list(request=at | {"filter": "colour != red"})))
    call("instances.list(pages)", lambda: list(vms.list(request=at | {"max_results": 2})), lambda all: len(all) >= 5)
    call("instances.list(order)", lambda: list(vms.list(request=at | {"order_by": "creationTimestamp desc"})))
    call("instances.aggregatedList", lambda: [i.name for _, s in vms.aggregated_list(project=p) for i in s.instances], lambda n: "plain" in n)
    finger = vms.get(**at, instance="plain").label_fingerprint
    call("instances.setLabels", lambda: done(vms.set_labels_unary(**at, instance="plain", instances_set_labels_request_resource=c.InstancesSetLabelsRequest(labels={"team": "b"}, label_fingerprint=finger))), answered)
    call("instances.setMetadata", lambda: done(vms.set_metadata_unary(**at, instance="plain", metadata_resource=c.Metadata(items=[c.Items(key="a", value="b")], fingerprint=vms.get(**at, instance="plain").metadata.fingerprint))), answered)
    call("instances.setTags", lambda: done(vms.set_tags_unary(**at, instance="plain", tags_resource=c.Tags(items=["a"], fingerprint=vms.get(**at, instance="plain").tags.fingerprint))), answered)
    no("instances.setTags(unseen)", "412", lambda: vms.set_tags_unary(**at, instance="plain", tags_resource=c.Tags(items=["b"])))
    call("instances.get(metadata, tags)", lambda: vms.get(**at, instance="plain"), lambda i: [(m.key, m.value) for m in i.metadata.items] == [("a", "b")] and list(i.tags.items) == ["a"])
    call("instances.stop", lambda: done(vms.stop_unary(**at, instance="plain")), answered)
    call("instances.get(stopped)", lambda: vms.get(**at, instance="plain").status, lambda s: s == "TERMINATED")
    call("instances.start", lambda: done(vms.start_unary(**at, instance="plain")), answered)
    call("instances.reset", lambda: done(vms.reset_unary(**at, instance="plain")), answered)
    call("instances.getSerialPortOutput", lambda: vms.get_serial_port_output(**at, instance="plain"), answered)
    call("instances.simulateMaintenanceEvent", lambda: done(vms.simulate_maintenance_event_unary(**at, instance="spot")), answered)
    call("instances.bulkInsert", lambda: done(vms.bulk_insert_unary(**at, bulk_insert_instance_resource_resource=c.BulkInsertInstanceResource(count=2, name_pattern="bulk-#", instance_properties=c.InstanceProperties(
        machine_type="n2-standard-4", disks=vm("x").disks, network_interfaces=vm("x").network_interfaces, scheduling=c.Scheduling(provisioning_model="SPOT"))))), answered)
    call("instances.list(after bulkInsert)", lambda: [i.name for i in vms.list(**at) if i.name.startswith("bulk-")], lambda n: len(n) == 2)
    call("zoneOperations.list", lambda: [o.operation_type for o in ops.list(**at)])
    call("zoneOperations.list(filter)", lambda: list(ops.list(request=at | {"filter": 'operationType = "insert"'})))
    op = next(iter(ops.list(**at))).name
    call("zoneOperations.get", lambda: ops.get(**at, operation=op).status)
    call("zoneOperations.wait", lambda: ops.wait(**at, operation=op).status, lambda s: s in (c.Operation.Status.DONE, "DONE"))
    call("globalOperations.aggregatedList", lambda: list(api("GlobalOperationsClient").aggregated_list(project=p)))
    call("instanceTemplates.list", lambda: list(api("InstanceTemplatesClient").list(project=p)), answered)
    call("instances.delete", lambda: done(vms.delete_unary(**at, instance="plain")), answered)
    no("instances.delete(unknown)", "404", lambda: vms.delete(**at, instance="nobody"))
    no("instances.get(deleted)", "404", lambda: vms.get(**at, instance="plain"))


def libcloud_calls():
    from libcloud.compute.providers import get_driver
    from libcloud.compute.types import Provider

    def call(name, do, check=bool):
        return record("apache-libcloud", name, do, check)

    host, port = EC2.removeprefix("http://").split(":")
    d = get_driver(Provider.EC2)("any", "any", region="us-west-1", host=host, port=int(port), secure=False)
    call("ec2.list_nodes", d.list_nodes, answered)
    call("ec2.list_sizes", d.list_sizes)
    call("ec2.list_locations", d.list_locations)
    image = call("ec2.list_images", lambda: d.list_images(ex_owner="amazon"))
    node = call("ec2.create_node", lambda: d.create_node(name="lib", size=next(s for s in d.list_sizes() if s.id == "c3.xlarge"), image=image[0]))
    call("ec2.list_nodes(ids)", lambda: d.list_nodes(ex_node_ids=[node.id]), lambda n: len(n) == 1)
    call("ec2.list_volumes", d.list_volumes)
    call("ec2.ex_list_networks", d.ex_list_networks)
    call("ec2.list_key_pairs", d.list_key_pairs, answered)
    call("ec2.ex_get_metadata_for_node", lambda: d.ex_get_metadata_for_node(node), lambda m: m.get("Name") == "lib")
    wait("instance_running", [node.id])
    call("ec2.reboot_node", lambda: d.reboot_node(node))
    call("ec2.destroy_node", lambda: d.destroy_node(node))

    import libcloud.common.google as g
    import libcloud.compute.drivers.gce as gce

    class Connection(gce.GCEConnection):
        host, port, secure = GCE.removeprefix("http://").split(":")[0], int(GCE.rsplit(":", 1)[1]), False

        def __init__(self, user_id, key, secure, **more):
            super().__init__(user_id, key, False, **more)
            self.host, self.port = Connection.host, Connection.port

        def add_default_headers(self, headers):
            headers["Content-Type"] = "application/json"
            return headers

        def pre_connect_hook(self, params, headers):
            return params, headers

    g.GoogleOAuth2Credential.__init__ = lambda self, *a, **b: None
    gce.GCENodeDriver.connectionCls = Connection

    def driver():
        return gce.GCENodeDriver("any@any.iam.gserviceaccount.com", "key", datacenter="us-central1-a", project="any")

    d = call("gce.driver", driver)
    if d is None:
        return
    call("gce.list_nodes", d.list_nodes)
    call("gce.list_sizes", d.list_sizes)
    call("gce.list_locations", d.list_locations)
    call("gce.ex_list_regions", d.ex_list_regions)
    call("gce.ex_get_node", lambda: d.ex_get_node("spot"))


ec2_calls()
gce_calls()
libcloud_calls()
failed = False
for client in dict.fromkeys(r[0] for r in results):
    mine = [r for r in results if r[0] == client]
    right, wrong = (sum(r[2] == kind for r in mine) for kind in ("right", "wrong"))
    print(f"{client}: {len(mine)} calls, {right} right, {len(mine) - right - wrong} missing, {wrong} wrong")
    for _, name, kind, why in mine:
        if kind != "right":
            print(f"  {kind}  {name}: {why}")
    failed |= wrong > 0 or right < 0.9 * len(mine)
sys.exit(failed)
