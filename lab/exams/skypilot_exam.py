"""SkyPilot's AWS provisioner (third-party code) launches, stops, resumes and ends a cluster through tierml fakecloud, up to the
point where it wants SSH: lab/exams/provisioner-exam."""

import sys

from sky.provision import common
from sky.provision.aws import config, instance
from sky.utils.status_lib import ClusterStatus

REGION, CLUSTER = "us-west-1", "exam"
node = {"InstanceType": "c3.xlarge", "ImageId": "ami-12345678", "IamInstanceProfile": {"Name": "any"}}
if sys.argv[1:] == ["spot"]:
    node["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.239"}}
wish = common.ProvisionConfig(
    provider_config={"region": REGION, "availability_zone": "us-west-1a", "use_internal_ips": False, "security_group": {"GroupName": "sky-sg-exam"}},
    authentication_config={}, docker_config={}, node_config=node, count=2, tags={"owner": "exam"}, resume_stopped_nodes=True, ports_to_open_on_launch=None)


def states():
    found = instance.query_instances(CLUSTER, CLUSTER, wish.provider_config, False)
    return sorted(str(s[0] if isinstance(s, tuple) else s) for s in found.values())


full = config.bootstrap_instances(REGION, CLUSTER, wish)
print("bootstrapped", full.node_config["SubnetIds"], full.node_config["SecurityGroupIds"])
record = instance.run_instances(REGION, CLUSTER, CLUSTER, full)
assert len(record.created_instance_ids) == 2, record
instance.wait_instances(REGION, CLUSTER, ClusterStatus.UP)
info = instance.get_cluster_info(REGION, CLUSTER, full.provider_config)
print("launched", record.created_instance_ids, "head", info.head_instance_id, "ssh at", info.get_feasible_ips())
assert len(info.instances) == 2 and len(set(info.get_feasible_ips())) == 2
if "InstanceMarketOptions" not in node:
    instance.stop_instances(CLUSTER, full.provider_config)
    instance.wait_instances(REGION, CLUSTER, ClusterStatus.STOPPED)
    print("stopped", states())
    full.tags.clear()  # SkyPilot 0.14.1 fails to write tags of resumed machines: boto3's Instance.tags has no setter
    resumed = instance.run_instances(REGION, CLUSTER, CLUSTER, full)
    assert sorted(resumed.resumed_instance_ids) == sorted(record.created_instance_ids), resumed
    instance.wait_instances(REGION, CLUSTER, ClusterStatus.UP)
    print("resumed", states())
instance.terminate_instances(CLUSTER, full.provider_config)
print("ended", states())
